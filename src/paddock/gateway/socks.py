"""SOCKS5, the server's side of a conversation: no authentication, CONNECT only (RFC 1928).

The name goes through Host.parse like every other name, so a destination gets the same verdict however it is spelled.
"""

from __future__ import annotations

import enum
import ipaddress
from dataclasses import dataclass
from typing import Final

from paddock.errors import PaddockError, UserError
from paddock.gateway.hello import NeedMore
from paddock.policy import Host

_V4, _NAME, _V6 = 1, 3, 4
_CONNECT: Final = 1
_NO_AUTHENTICATION: Final = 0
_NO_METHOD: Final = b"\x05\xff"
_SOCKS4_REJECTED: Final = b"\x00\x5b" + bytes(6)


class Code(enum.IntEnum):
    """What a reply says (RFC 1928 §6)."""

    SUCCEEDED = 0
    FAILURE = 1
    NOT_ALLOWED = 2
    NETWORK_UNREACHABLE = 3
    HOST_UNREACHABLE = 4
    REFUSED = 5
    COMMAND_UNKNOWN = 7
    ADDRESS_UNKNOWN = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes to send to the client; then feed what follows, or b"" for what is already here."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where the client wants to go. `rest` is what it sent ahead of our reply."""

    host: Host
    port: int
    rest: bytes = b""


class BadSocks(PaddockError):
    """Not a conversation we have. `reply` is to be sent, if anything, before the connection is closed."""

    kind = "bad-socks"

    def __init__(self, reason: str, reply: bytes = b"") -> None:
        super().__init__(reason)
        self.reply = reply


def reply(code: Code) -> bytes:
    """The answer to a Request; the bound address stays empty, for nobody is told ours."""
    return bytes((5, code, 0, _V4)) + bytes(6)


class SocksServer:
    """Greeting, our choice of method, request: after the Request every feed raises, for the stream is the tunnel's."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._greeted = False
        self._error: BadSocks | None = None

    def __repr__(self) -> str:
        state = "ended" if self._error else "greeted" if self._greeted else "new"
        return f"<SocksServer {state} {len(self._buffer)} bytes>"

    def feed(self, data: bytes) -> NeedMore | Reply | Request:
        """Raises BadSocks for all that is not a SOCKS5 CONNECT."""
        if self._error:
            raise self._error.with_traceback(None)
        self._buffer += data
        try:
            return self._request() if self._greeted else self._greeting()
        except BadSocks as error:
            self._error = error
            self._buffer.clear()
            raise

    def _greeting(self) -> NeedMore | Reply:
        buffer = self._buffer
        if not buffer:
            return NeedMore()
        if buffer[0] == 4:
            raise BadSocks("SOCKS4 is not spoken here", _SOCKS4_REJECTED)
        if buffer[0] != 5:
            raise BadSocks("not SOCKS")
        if len(buffer) < 2 or len(buffer) < 2 + buffer[1]:
            return NeedMore()
        end = 2 + buffer[1]
        if _NO_AUTHENTICATION not in buffer[2:end]:
            raise BadSocks("the client insists on authentication", _NO_METHOD)
        del buffer[:end]
        self._greeted = True
        return Reply(bytes((5, _NO_AUTHENTICATION)))

    def _request(self) -> NeedMore | Request:
        buffer = self._buffer
        if buffer and buffer[0] != 5:
            raise BadSocks("a request of another version", reply(Code.FAILURE))
        if len(buffer) > 1 and buffer[1] != _CONNECT:
            raise BadSocks("only CONNECT is served", reply(Code.COMMAND_UNKNOWN))
        if len(buffer) > 2 and buffer[2] != 0:
            raise BadSocks("a malformed request", reply(Code.FAILURE))
        if len(buffer) > 3 and buffer[3] not in {_V4, _NAME, _V6}:
            raise BadSocks("an unknown kind of address", reply(Code.ADDRESS_UNKNOWN))
        if len(buffer) < 5:
            return NeedMore()
        start = 5 if buffer[3] == _NAME else 4
        end = start + {_V4: 4, _NAME: buffer[4], _V6: 16}[buffer[3]]
        if len(buffer) < end + 2:
            return NeedMore()
        host = _host(buffer[3], bytes(buffer[start:end]))
        port = int.from_bytes(buffer[end : end + 2])
        if port == 0:
            raise BadSocks("port 0", reply(Code.FAILURE))
        self._error = BadSocks("the conversation has ended")
        request = Request(host=host, port=port, rest=bytes(buffer[end + 2 :]))
        buffer.clear()
        return request


def _host(kind: int, raw: bytes) -> Host:
    if kind == _V4:
        return Host.of(ipaddress.IPv4Address(raw))
    if kind == _V6:
        return Host.of(ipaddress.IPv6Address(raw))
    try:
        return Host.parse(raw.decode("ascii"))
    except (UserError, UnicodeDecodeError) as error:
        raise BadSocks("a malformed name", reply(Code.FAILURE)) from error

"""The first bytes of a TLS client, read without answering: which name it asks for, before anything is forwarded.

Nothing is decrypted. What is not one well-formed ClientHello is NotTls, so that a doubtful one is refused instead of
being read differently by the server behind us (RFC 8446 §4.1.2 and §5.1, RFC 6066 §3, RFC 7301 §3.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.limits import CLIENT_HELLO_BYTES, CLIENT_HELLO_RECORDS_MAX

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_BYTES: Final = 1 << 14
_SERVER_NAME: Final = 0
_ALPN: Final = 16
# encrypted_client_hello, its drafts and the ESNI before them. Browsers send a dummy, which cannot be told apart.
_ECH: Final = frozenset({0xFE0D, 0xFE0C, 0xFE0B, 0xFE0A, 0xFE09, 0xFE08, 0xFF03, 0xFF02, 0xFFCE})
_NAME: Final = re.compile(rb"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class NeedMore:
    """Not decided yet: feed the next bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A whole ClientHello. `sni` is as the client spelled it: Host.parse decides whether it is a name."""

    sni: str | None
    ech: bool
    alpn: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotTls:
    """These bytes begin no TLS connection that can be judged; `reason` says why."""

    reason: str


class HelloPeek:
    """Decides after at most CLIENT_HELLO_BYTES of handshake; `data` keeps every byte fed, to be forwarded then."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._message = bytearray()
        self._records = 0
        self._next = 0  # where the next record begins in data
        self._result: Hello | NotTls | None = None

    def __repr__(self) -> str:
        return f"<HelloPeek {self._result or f'{len(self.data)} bytes'}>"

    def feed(self, data: bytes) -> NeedMore | Hello | NotTls:
        self.data += data
        if self._result is None:
            try:
                self._result = self._read()
            except _Malformed as error:
                self._result = NotTls(str(error))
        return self._result or NeedMore()

    def _read(self) -> Hello | None:
        while True:
            start = self._next
            header = self.data[start : start + 5]
            if (header and header[0] != _HANDSHAKE) or (len(header) > 1 and header[1] != 3):
                raise _Malformed("not a TLS handshake")
            if len(header) < 5:
                return None
            length = int.from_bytes(header[3:5])
            if not 0 < length <= _RECORD_BYTES:
                raise _Malformed("a TLS record of impossible length")
            if len(self.data) < start + 5 + length:
                return None
            self._records += 1
            self._next = start + 5 + length
            self._message += self.data[start + 5 : self._next]
            if self._take():
                return _parse(bytes(self._message[4:]))

    def _take(self) -> bool:
        """Whether the records so far hold the message, the whole message and nothing else."""
        message = self._message
        if message[0] != _CLIENT_HELLO:
            raise _Malformed("a TLS handshake that does not begin with a ClientHello")
        length = int.from_bytes(message[1:4]) if len(message) >= 4 else None
        if length is not None and length + 4 > CLIENT_HELLO_BYTES:
            raise _Malformed("a ClientHello that is too long")
        if length is not None and len(message) > length + 4:
            raise _Malformed("more than a ClientHello in its record")
        if length is not None and len(message) == length + 4:
            return True
        if self._records >= CLIENT_HELLO_RECORDS_MAX:
            raise _Malformed("a ClientHello in too many pieces")
        return False


class _Malformed(Exception):
    pass


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise _Malformed("a ClientHello that is cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))


def _parse(body: bytes) -> Hello:
    reader = _Reader(body)
    if reader.number(2) >> 8 != 3:
        raise _Malformed("a ClientHello of unknown version")
    reader.take(32)
    if len(reader.vector(1)) > 32:
        raise _Malformed("a ClientHello with a long session id")
    suites = reader.vector(2)
    if not suites or len(suites) % 2:
        raise _Malformed("a ClientHello with malformed cipher suites")
    if 0 not in reader.vector(1):
        raise _Malformed("a ClientHello without the null compression")
    extensions = _extensions(reader.vector(2)) if reader.left else {}
    if reader.left:
        raise _Malformed("bytes after the extensions of a ClientHello")
    return Hello(
        sni=_server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else None,
        ech=not _ECH.isdisjoint(extensions),
        alpn=_protocols(extensions[_ALPN]) if _ALPN in extensions else (),
    )


def _extensions(block: bytes) -> dict[int, bytes]:
    reader = _Reader(block)
    found: dict[int, bytes] = {}
    while reader.left:
        kind = reader.number(2)
        if kind in found:
            raise _Malformed("a ClientHello that says one thing twice")
        found[kind] = reader.vector(2)
    return found


def _server_name(data: bytes) -> str:
    """Exactly one name of the one kind there is: with two, the server could choose the other."""
    reader = _Reader(data)
    entries = _Reader(reader.vector(2))
    kind = entries.number(1)
    name = entries.vector(2)
    if kind != 0 or entries.left or reader.left or not _NAME.fullmatch(name):
        raise _Malformed("a ClientHello with a malformed server name")
    return name.decode("ascii")


def _protocols(data: bytes) -> tuple[str, ...]:
    reader = _Reader(data)
    entries = _Reader(reader.vector(2))
    found: list[str] = []
    while entries.left:
        found.append(entries.vector(1).decode("latin-1"))
    if reader.left or not found or not all(found):
        raise _Malformed("a ClientHello with a malformed list of protocols")
    return tuple(found)

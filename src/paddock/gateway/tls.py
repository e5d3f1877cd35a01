"""One end of a TLS connection without a socket: bytes in, bytes out.

Both ways pass in pieces of 16 KiB: the buffers between OpenSSL and us keep the size they once had, and a box may have
hundreds of connections.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from paddock.limits import TLS_PIECE_BYTES

if TYPE_CHECKING:
    from paddock.policy import Host

_READ_BYTES: Final = 16 * 1024  # a record holds no more


class Tls:
    """A server without `server_name`, a client of that host with it."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "ended", "shaken")

    def __init__(self, context: ssl.SSLContext, server: Host | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = server.text if server is not None else None
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server is None, server_hostname=name)
        self.shaken = False
        self.ended = False  # the other end has said that it sends no more

    def __repr__(self) -> str:
        return f"<Tls {'ended' if self.ended else 'shaken' if self.shaken else 'shaking hands'}>"

    def begin(self) -> bytes:
        """What a client says first."""
        self._shake()
        return self._outgoing.read()

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """(what the other end said, what it is to be sent for it). Raises ssl.SSLError."""
        said: list[bytes] = []
        reply = b""
        view = memoryview(data)
        while view and not self.ended:
            self._incoming.write(view[:TLS_PIECE_BYTES])
            view = view[TLS_PIECE_BYTES:]
            self._take(said)
            if self._outgoing.pending:
                reply += self._outgoing.read()
        return said[0] if len(said) == 1 else b"".join(said), reply

    def write(self, data: bytes) -> bytes:
        """`data` as it is sent."""
        if len(data) <= TLS_PIECE_BYTES:
            self._tls.write(data)
            return self._outgoing.read()
        parts = []
        view = memoryview(data)
        while view:
            self._tls.write(view[:TLS_PIECE_BYTES])
            view = view[TLS_PIECE_BYTES:]
            parts.append(self._outgoing.read())
        return b"".join(parts)

    def alert(self) -> bytes:
        """What is still to be sent after an error."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Says that no more is sent; whether the other end says the same is not waited for."""
        if self.shaken:
            try:
                self._tls.unwrap()
            except (ssl.SSLError, OSError, ValueError):
                pass
        return self._outgoing.read()

    def _shake(self) -> bool:
        if not self.shaken:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return False
            self.shaken = True
        return True

    def _take(self, said: list[bytes]) -> None:
        if not self._shake():
            return
        read = self._tls.read
        while self._incoming.pending or self._tls.pending():
            try:
                data = read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                data = b""
            if not data:
                self.ended = True
                return
            said.append(data)

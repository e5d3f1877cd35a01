"""The first bytes of a connection, and what they tell of its protocol."""

from __future__ import annotations

import asyncio
import enum
import socket
from typing import TYPE_CHECKING, Final

from paddock.gateway.hello import Hello, HelloPeek, NeedMore, NotTls
from paddock.gateway.poller import READ, WRITE
from paddock.limits import FLOW_GATED_LEAST_BYTES, INTAKE_STALL_S

if TYPE_CHECKING:
    from paddock.gateway.poller import Poller

_TLS_RECORD: Final = 0x16
_METHODS: Final = tuple(
    f"{name} ".encode()
    for name in (
        *("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"),
        *("PROPFIND", "PROPPATCH", "REPORT", "MKCOL", "MKACTIVITY", "CHECKOUT", "MERGE", "COPY", "MOVE", "LOCK"),
        *("UNLOCK", "SEARCH", "QUERY", "PURGE"),
    )
)
_INITIALS: Final = frozenset(method[0] for method in _METHODS)


class Kind(enum.Enum):
    TLS = "tls"
    HTTP = "http"
    OTHER = "tcp"


def kind_of(first: bytes) -> Kind | None:
    """None while it could still be more than one of them."""
    if not first:
        return None
    if first[0] == _TLS_RECORD:
        return Kind.TLS
    if first[0] not in _INITIALS:
        return Kind.OTHER
    if first.startswith(_METHODS):
        return Kind.HTTP
    return None if any(method.startswith(first) for method in _METHODS) else Kind.OTHER


class Opening:
    """A connection as long as nobody relays it: `first` is what came and was not passed on."""

    __slots__ = ("first", "poller", "sock")

    def __init__(self, poller: Poller, sock: socket.socket, first: bytes = b"") -> None:
        self.poller = poller
        self.sock = sock
        self.first = first

    def __repr__(self) -> str:
        return f"<Opening fd {self.sock.fileno()}, {len(self.first)} bytes>"

    async def read(self, timeout_s: float) -> bytes:
        """The next bytes, kept in `first` too; none at the end of the stream. Raises TimeoutError and OSError."""
        try:
            data = self.sock.recv(FLOW_GATED_LEAST_BYTES)
        except BlockingIOError:
            async with asyncio.timeout(timeout_s):
                data = await self._wait()
        self.first += data
        return data

    async def _wait(self) -> bytes:
        while True:
            await self.poller.ready(self.sock.fileno(), READ)
            try:
                return self.sock.recv(FLOW_GATED_LEAST_BYTES)
            except BlockingIOError:
                continue

    async def send(self, data: bytes, timeout_s: float = INTAKE_STALL_S) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                async with asyncio.timeout(timeout_s):
                    await self.poller.ready(self.sock.fileno(), WRITE)

    async def kind(self, timeout_s: float) -> Kind:
        """What the first bytes are; OTHER too when they end or do not come in time."""
        while (kind := kind_of(self.first)) is None:
            try:
                data = await self.read(timeout_s)
            except TimeoutError:
                return Kind.OTHER
            if not data:
                return Kind.OTHER
            timeout_s = INTAKE_STALL_S
        return kind

    async def hello(self, timeout_s: float) -> Hello | NotTls:
        peek = HelloPeek()
        found = peek.feed(self.first)
        while isinstance(found, NeedMore):
            data = await self.read(timeout_s)
            if not data:
                return NotTls("it ended")
            found = peek.feed(data)
            timeout_s = INTAKE_STALL_S
        return found

    async def finish(self, data: bytes, linger_s: float) -> None:
        """Say the last words and close, but not before they were read: unread bytes would turn the close into a reset.

        What the client still sends is read and dropped for a while, and no longer.
        """
        try:
            async with asyncio.timeout(linger_s):
                await self.send(data)
                self.sock.shutdown(socket.SHUT_WR)
                while await self.read(linger_s):
                    self.first = b""
        except (OSError, TimeoutError):
            pass
        finally:
            self.sock.close()

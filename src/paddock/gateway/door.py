"""The gateway's side of a box's door: through it come the sockets that were made in the box's network.

Whoever is at the other end is in the box, so nothing that comes is believed: each descriptor must be exactly the socket
that was promised, bound where it was promised to be, and a message nobody asked for shuts the door.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable
from paddock.gateway import control
from paddock.gateway.poller import READ
from paddock.limits import (
    DOOR_ASKS_MAX,
    DOOR_MESSAGE_BYTES,
    DOOR_REPLY_S,
    LINK_ADDRESS,
    LOCALHOST_PORTS_MAX,
    SEAL_DNS_PORT,
    SEAL_TCP_PORT,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.poller import Poller

_MESSAGES: Final = 16  # at once; then the others have their turn
_PLACES: Final = ("127.0.0.1", LINK_ADDRESS)  # of the gateway in a box; the second where it has a stack of its own
_LISTENERS_MAX: Final = 2 * LOCALHOST_PORTS_MAX  # IPv4 and IPv6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sockets:
    """A box's sockets; whoever receives them closes them."""

    tcp: socket.socket
    udp: socket.socket
    listeners: tuple[socket.socket, ...] = ()

    def close(self) -> None:
        for sock in (self.tcp, self.udp, *self.listeners):
            sock.close()


class Door:
    """Takes the descriptor over. `on_sockets` is called for each announcement, `on_lost` once when the door is shut."""

    def __init__(
        self, poller: Poller, fd: int, on_sockets: Callable[[Sockets], None], on_lost: Callable[[str], None]
    ) -> None:
        self._poller = poller
        self._sock = socket.socket(fileno=fd)
        self._on_sockets = on_sockets
        self._on_lost = on_lost
        self._asked: deque[asyncio.Future[list[socket.socket]]] = deque()
        self._sock.setblocking(False)
        poller.watch(self._sock.fileno(), READ, self._ready)

    def __repr__(self) -> str:
        return f"<Door {'open' if self.is_open else 'shut'}, {len(self._asked)} asked>"

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() >= 0

    def close(self) -> None:
        if self.is_open:
            self._poller.forget(self._sock.fileno())
            self._sock.close()
        while self._asked:
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_exception(Unavailable("the box's door is shut", code="door"))

    async def dial(self, port: int) -> socket.socket:
        """A connection to 127.0.0.1:port in the box; Unavailable code="refused" when nobody listens there."""
        found = await self._ask("dial", port)
        if len(found) == 1 and _is_connected(found[0]):
            return found[0]
        raise self._broken(found, "it sent no connection")

    async def listen(self, port: int) -> tuple[socket.socket, ...]:
        found = await self._ask("listen", port)
        if 1 <= len(found) <= 2 and all(_is_listener(sock) and sock.getsockname()[1] == port for sock in found):
            return tuple(found)
        raise self._broken(found, "it sent no listener")

    async def unlisten(self, port: int) -> None:
        found = await self._ask("unlisten", port)
        if found:
            raise self._broken(found, "it sent what nobody asked for")

    async def _ask(self, op: str, port: int) -> list[socket.socket]:
        if not self.is_open or len(self._asked) >= DOOR_ASKS_MAX:
            raise Unavailable("the box's door does not answer", code="door")
        asked: asyncio.Future[list[socket.socket]] = self._poller.loop.create_future()
        try:
            control.send(self._sock, {"op": op, "port": port})
        except OSError as error:
            raise Unavailable("the box's door does not answer", code="door") from error
        self._asked.append(asked)
        try:
            async with asyncio.timeout(DOOR_REPLY_S):
                return await asyncio.shield(asked)
        except TimeoutError as error:
            self._lose("it does not answer")
            raise Unavailable("the box's door does not answer", code="door") from error
        except asyncio.CancelledError:
            asked.add_done_callback(_drop)  # the answer still comes, and in its turn
            raise

    def _broken(self, found: list[socket.socket], what: str) -> Unavailable:
        for sock in found:
            sock.close()
        self._lose(what)
        return Unavailable(f"the box's door is broken: {what}", code="door")

    def _lose(self, why: str) -> None:
        if self.is_open:
            self.close()
            self._on_lost(why)

    def _ready(self, _events: int) -> None:
        try:
            for _ in range(_MESSAGES):
                if not self.is_open:
                    return
                message = control.receive(self._sock, DOOR_MESSAGE_BYTES, 2 + _LISTENERS_MAX)
                if message is None:
                    self._lose("it was shut")
                    return
                self._message(message)
        except BlockingIOError:
            return
        except OSError:
            self._lose("it was shut")
        except ValueError as error:
            self._lose(str(error))

    def _message(self, message: control.Message) -> None:
        if message.cut:
            self._lose("it sent more descriptors than there is room for")
            return
        sockets = _sockets(message.fds)
        if message.body.get("sealed") is True:
            try:
                self._on_sockets(_announced(sockets))
            except ValueError as error:
                self._lose(str(error))
            return
        if not self._asked:
            _close(sockets)
            self._lose("it said what nobody asked for")
            return
        asked = self._asked.popleft()
        if asked.done() or message.body.get("ok") is not True:
            _close(sockets)
        if asked.done():
            return
        if message.body.get("ok") is True:
            asked.set_result(sockets)
        else:
            refused = message.body.get("error") == "ECONNREFUSED"
            asked.set_exception(
                Unavailable("nothing in the box answers there", code="refused" if refused else "unreachable")
            )


def _drop(answer: asyncio.Future[list[socket.socket]]) -> None:
    if not answer.cancelled() and answer.exception() is None:
        _close(answer.result())


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _sockets(fds: list[int]) -> list[socket.socket]:
    """What of the descriptors is a socket; ValueError, and all are closed, when one is not."""
    made: list[socket.socket] = []
    rest = list(fds)
    try:
        while rest:
            made.append(socket.socket(fileno=rest[0]))
            rest.pop(0)
            made[-1].setblocking(False)
    except OSError as error:
        _close(made)
        control.close_all(rest)
        raise ValueError("a descriptor is no socket") from error
    return made


def _announced(sockets: list[socket.socket]) -> Sockets:
    """ValueError, and all are closed, unless they are what a sealed box has."""
    if (
        len(sockets) >= 2
        and _is_listener(sockets[0])
        and sockets[0].getsockname() in {(place, SEAL_TCP_PORT) for place in _PLACES}
        and _is_resolver(sockets[1])
        and all(map(_is_listener, sockets[2:]))
    ):
        return Sockets(tcp=sockets[0], udp=sockets[1], listeners=tuple(sockets[2:]))
    _close(sockets)
    raise ValueError("its sockets are not those of a sealed box")


def _is_listener(sock: socket.socket) -> bool:
    return _is_tcp_on_loopback(sock) and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _is_connected(sock: socket.socket) -> bool:
    try:
        return _is_tcp_on_loopback(sock) and bool(sock.getpeername())
    except OSError:
        return False


def _is_tcp_on_loopback(sock: socket.socket) -> bool:
    return (
        sock.family in {socket.AF_INET, socket.AF_INET6}
        and sock.type == socket.SOCK_STREAM
        and sock.proto == socket.IPPROTO_TCP
        and sock.getsockname()[0] in {*_PLACES, "::1"}
    )


def _is_resolver(sock: socket.socket) -> bool:
    return (sock.family, sock.type, sock.proto) == (
        socket.AF_INET,
        socket.SOCK_DGRAM,
        socket.IPPROTO_UDP,
    ) and sock.getsockname() in {(place, SEAL_DNS_PORT) for place in _PLACES}

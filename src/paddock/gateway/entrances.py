"""Where a box's connections come in: the sockets that came through its door, ports of localhost, published ports.

A box listens on exactly those ports of its localhost that its policy opens.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from paddock.errors import Unavailable
from paddock.gateway import intake
from paddock.gateway.door import Door
from paddock.gateway.listeners import Listeners
from paddock.gateway.poller import READ

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Sequence

    from paddock.gateway.box import Box
    from paddock.gateway.caller import Caller
    from paddock.gateway.door import Sockets
    from paddock.gateway.listeners import Serve

log = logging.getLogger(__name__)


class Entrances:
    """Takes over the door and the published listeners."""

    def __init__(
        self, box: Box, has_room: Callable[[], bool], accepted: Callable[[socket.socket, Serve], None]
    ) -> None:
        self._box = box
        self._poller = box.poller
        self._listeners = Listeners(box.poller, has_room, accepted)
        self._door: Door | None = None
        self._tcp: socket.socket | None = None
        self._udp: socket.socket | None = None
        self._local: dict[int, list[socket.socket]] = {}  # listeners of localhost, by port
        self._published: list[socket.socket] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Entrances of {self._box.net.id} {self._listeners!r}>"

    @property
    def is_sealed(self) -> bool:
        """Whether the box's sockets have come."""
        return self._tcp is not None

    @property
    def is_alive(self) -> bool:
        """Whether someone in the box still holds the other end of its door."""
        return self._door is not None and self._door.is_open

    @property
    def udp(self) -> socket.socket | None:
        """Where the box asks for names."""
        return self._udp

    def open_door(self, fd: int) -> None:
        """Take the box's sockets through a new door; what came through an old one is dropped with the next."""
        if self._door is not None:
            self._door.close()
        self._door = Door(self._poller, fd, self._sealed, self._door_lost)

    def publish(self, listeners: Sequence[socket.socket], ports: Sequence[int]) -> None:
        """Serve listeners of the host for ports of the box, in place of those before."""
        self._listeners.drop(self._published)
        for listener, port in zip(listeners, ports, strict=True):
            self._published.append(listener)
            self._listeners.add(listener, functools.partial(self._serve_published, port))

    def _serve_published(self, port: int, caller: Caller) -> Coroutine[None, None, None]:
        return intake.published(self._box, caller, port)

    def resume(self) -> None:
        """There may be room for more connections again."""
        self._listeners.resume()

    async def dial(self, port: int) -> socket.socket:
        """Connect to a port inside the box."""
        if self._door is None:
            raise Unavailable("the box has no door", code="door")
        return await self._door.dial(port)

    def close(self) -> None:
        self._closed = True
        if self._door is not None:
            self._door.close()
        self._listeners.drop(self._published)
        self._drop_sealed()

    def _drop_sealed(self) -> None:
        self._listeners.drop([sock for sock in (self._tcp, self._udp) if sock is not None])
        for listeners in self._local.values():
            self._listeners.drop(listeners)

    def _sealed(self, sockets: Sockets) -> None:
        self._drop_sealed()
        self._local.clear()
        self._tcp, self._udp = sockets.tcp, sockets.udp
        self._listeners.add(sockets.tcp, lambda caller: intake.serve(self._box, caller))
        self._poller.watch(sockets.udp.fileno(), READ, self._box.asked_for_names)
        for listener in sockets.listeners:
            self._add_local(listener)
        self.reconcile()

    def _door_lost(self, why: str) -> None:
        if not self._closed:
            log.info("box %s: the door is lost: %s", self._box.net.id, why)

    # -- ports of localhost --------------------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """The policy may have changed: close and open what it now says."""
        wanted = set(self._box.judge.evaluator.localhost_ports())
        have = set(self._local)
        if self._door is None or self._tcp is None or wanted == have:
            return
        for port in have - wanted:
            self._listeners.drop(self._local.pop(port))
            self._box.spawn(self._asked(self._unlisten(self._door, port)))
        for port in wanted - have:
            self._box.spawn(self._asked(self._listen(self._door, port)))

    def _add_local(self, listener: socket.socket) -> None:
        port = listener.getsockname()[1]
        self._local.setdefault(port, []).append(listener)
        self._listeners.add(listener, lambda caller: intake.local(self._box, caller, port))

    async def _asked(self, asking: Coroutine[None, None, None]) -> None:
        try:
            await asking
        except Unavailable as error:
            log.info("box %s: %s", self._box.net.id, error.message)

    async def _unlisten(self, door: Door, port: int) -> None:
        await door.unlisten(port)

    async def _listen(self, door: Door, port: int) -> None:
        listeners = await door.listen(port)
        current = door is self._door and not self._closed
        for listener in listeners:
            if current and port in self._box.judge.evaluator.localhost_ports():
                self._add_local(listener)
            else:
                listener.close()

"""Accepts from many listeners, and from none while there is no room: then the kernel's queue fills, and it refuses."""

from __future__ import annotations

import errno
import functools
import socket
from typing import TYPE_CHECKING, Final

from paddock.gateway.poller import READ

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from paddock.gateway.caller import Caller
    from paddock.gateway.poller import Poller

    Serve = Callable[[Caller], Coroutine[None, None, None]]

_ACCEPTS: Final = 16  # at once, from one listener
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SCARCE_S: Final = 0.2


class Listeners:
    """`accepted` gets each connection and the `serve` of its listener."""

    def __init__(
        self, poller: Poller, has_room: Callable[[], bool], accepted: Callable[[socket.socket, Serve], None]
    ) -> None:
        self._poller = poller
        self._has_room = has_room
        self._accepted = accepted
        self._serving: dict[socket.socket, Serve] = {}
        self._held: set[socket.socket] = set()  # those that wait until there is room

    def __repr__(self) -> str:
        return f"<Listeners {len(self._serving)}, {len(self._held)} held>"

    def add(self, listener: socket.socket, serve: Serve) -> None:
        listener.setblocking(False)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # whoever is accepted inherits it
        self._serving[listener] = serve
        self._watch(listener)

    def drop(self, sockets: list[socket.socket]) -> None:
        """Close them, and whatever else of the poller's is among them."""
        for sock in sockets:
            self._poller.forget(sock.fileno())
            self._serving.pop(sock, None)
            self._held.discard(sock)
            sock.close()
        sockets.clear()

    def resume(self) -> None:
        """There may be room again."""
        if not self._held or not self._has_room():
            return
        for listener in self._held:
            self._watch(listener)
        self._held.clear()

    def _watch(self, listener: socket.socket) -> None:
        self._poller.watch(listener.fileno(), READ, functools.partial(self._accept, listener))

    def _accept(self, listener: socket.socket, _events: int = 0) -> None:
        serve = self._serving.get(listener)
        for _ in range(_ACCEPTS):
            if serve is None or not self._has_room():
                self._hold(listener)
                return
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _SCARCE:
                    self._hold(listener)
                    self._poller.loop.call_later(_SCARCE_S, self.resume)
                return
            sock.setblocking(False)
            self._accepted(sock, serve)

    def _hold(self, listener: socket.socket) -> None:
        if listener in self._serving and listener not in self._held:
            self._held.add(listener)
            self._poller.forget(listener.fileno())

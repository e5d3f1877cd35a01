"""One epoll for all flows, inside asyncio's own: an event costs a lookup and a call, no Handle, no Context, no Future.

asyncio sees one descriptor that is ready while any of ours is. A handler must bear a call without cause: an event that
was fetched for a closed descriptor may reach the one that has its number now.
"""

from __future__ import annotations

import logging
import select
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Handler = Callable[[int], None]

log = logging.getLogger(__name__)

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
_EVENTS: Final = 256  # at once; then timers and the control socket have their turn


class Poller:
    """Descriptors and who is called when they are ready. `now` is the loop's time at the start of the turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self.now = loop.time()
        loop.add_reader(self._epoll.fileno(), self._turn)

    def __repr__(self) -> str:
        return f"<Poller {len(self._handlers)} descriptors>"

    def __len__(self) -> int:
        return len(self._handlers)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def forget(self, fd: int) -> None:
        """Before the descriptor is closed; one that is not watched is no error."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def ready(self, fd: int, mask: int) -> None:
        """Wait once."""
        waiting: asyncio.Future[None] = self._loop.create_future()

        def settle(_events: int) -> None:
            if not waiting.done():
                waiting.set_result(None)

        self.watch(fd, mask | select.EPOLLONESHOT, settle)
        try:
            await waiting
        finally:
            self.forget(fd)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._handlers.clear()

    def _turn(self) -> None:
        self.now = self._loop.time()
        handlers = self._handlers
        for fd, events in self._epoll.poll(0, _EVENTS):
            handler = handlers.get(fd)
            if handler is None:
                continue
            try:
                handler(events)
            except Exception:
                # The last resort: whatever it was, it must not spin, and the other flows go on.
                log.exception("a handler failed")
                self.forget(fd)
            if self._epoll.closed:
                return

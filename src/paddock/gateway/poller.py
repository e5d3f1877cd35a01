"""One epoll for all flows, inside asyncio's own: an event costs a lookup and a call, no Handle, no Context, no Future.

asyncio sees one descriptor that is ready while any of ours is. A handler must bear a call without cause: an event that
was fetched for a closed descriptor may reach the one that has its number now.

Boxes take turns. Whatever is watched through a box's Share is called while the box has time left in this turn; what is
left out is still ready in the next, after the other boxes'. So what one box sends costs another at most a slice of time
for each box that is busy, however many connections it comes on.
"""

from __future__ import annotations

import logging
import select
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Handler = Callable[[int], None]

log = logging.getLogger(__name__)

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
_EVENTS: Final = 256  # at once; then timers and the control socket have their turn
_SLICE_S: Final = 0.004


class Poller:
    """Descriptors and who is called when they are ready. `now` is the loop's time at the start of the turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._handlers: dict[int, tuple[Handler, Share | None]] = {}
        self._now = loop.time()
        self._turns = 0
        loop.add_reader(self._epoll.fileno(), self._turn)

    def __repr__(self) -> str:
        return f"<Poller {len(self._handlers)} descriptors>"

    def __len__(self) -> int:
        return len(self._handlers)

    @property
    def now(self) -> float:
        return self._now

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def share(self) -> Share:
        """A part of it, with its own slice of every turn."""
        return Share(self)

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        self._watch(fd, mask, handler, None)

    def _watch(self, fd: int, mask: int, handler: Handler, share: Share | None) -> None:
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler, share

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

        self._watch(fd, mask | select.EPOLLONESHOT, settle, None)  # it comes once, and so cannot be left for later
        try:
            await waiting
        finally:
            self.forget(fd)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._handlers.clear()

    def _turn(self) -> None:
        self._now = self._loop.time()
        self._turns += 1
        handlers = self._handlers
        clock = time.monotonic
        began = clock()
        for fd, events in self._epoll.poll(0, _EVENTS):
            known = handlers.get(fd)
            if known is None:
                continue
            handler, share = known
            if share is not None and share.turn != self._turns:
                share.turn, share.spent_s = self._turns, 0.0
            elif share is not None and share.spent_s > _SLICE_S:
                continue
            try:
                handler(events)
            except Exception:
                # The last resort: whatever it was, it must not spin, and the other flows go on.
                log.exception("a handler failed")
                self.forget(fd)
            if self._epoll.closed:
                return
            began, before = clock(), began
            if share is not None:
                share.spent_s += began - before


class Share(Poller):
    """One box's part of a poller: the same descriptors and the same time, but a slice of each turn."""

    def __init__(self, whole: Poller) -> None:
        self._whole = whole
        self._loop = whole._loop  # noqa: SLF001 - it is of the same kind
        self._epoll = whole._epoll  # noqa: SLF001 - it is of the same kind
        self._handlers = whole._handlers  # noqa: SLF001 - it is of the same kind
        self.turn = 0
        self.spent_s = 0.0

    def __repr__(self) -> str:
        return f"<Share {self.spent_s * 1000:.1f} ms of turn {self.turn}>"

    @property
    def now(self) -> float:
        return self._whole.now

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        self._watch(fd, mask, handler, self)

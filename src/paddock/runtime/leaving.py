"""Work in a thread of its own that ends when nobody waits for it any more.

A thread cannot be cancelled. So one that waits for something outside, a pipe that is silent or a process that works on
an image for an hour, waits for it here, together with the word that it may stop.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from typing import TYPE_CHECKING, TypeVar

from paddock.errors import Unavailable
from paddock.runtime import threads

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_here = threading.local()


async def attended(act: Callable[..., T], *args: object) -> T:
    """Cancelled, it is over when the thread has ended: until then that uses what its caller holds."""
    stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def work() -> T:
        _here.stop = stop
        return act(*args)

    working = asyncio.ensure_future(threads.aside(work))
    working.add_done_callback(lambda _: os.close(stop))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if not working.done():
            os.eventfd_write(stop, 1)
            await asyncio.wait({working})
        if not working.cancelled():
            working.exception()  # which is nobody's business by now
        raise


def readable(fd: int) -> None:
    """Wait until there is something to read. Unavailable if nobody waits for us, in a thread of `attended`."""
    stop = getattr(_here, "stop", None)
    if stop is None:
        return
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(stop, select.POLLIN)
    if stop in dict(poll.poll()):
        raise _interrupted()


def proceed() -> None:
    """The same for who does not wait, but takes long."""
    stop = getattr(_here, "stop", None)
    if stop is not None and select.select([stop], [], [], 0)[0]:
        raise _interrupted()


def _interrupted() -> Unavailable:
    return Unavailable("nobody waits for it any more", code="interrupted")

"""Threads that are there before they are needed: with no room for another process the daemon still does its work.

A ThreadPoolExecutor starts threads on demand, and raises when it cannot, after it has queued the work: that then
happens all the same, unseen, when there is room again.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_HINT = "end some processes: your account or the machine has no room for another (`ulimit -u`)"


def pool(count: int, name: str) -> ThreadPoolExecutor:
    """An executor all of whose threads run already."""
    executor = ThreadPoolExecutor(count, name)
    together = threading.Barrier(count)
    try:
        for future in [executor.submit(together.wait) for _ in range(count)]:
            future.result()
    except RuntimeError as error:
        together.abort()
        executor.shutdown(wait=False)
        raise Unavailable(f"cannot start a thread: {error}", hint=_HINT, code="threads") from error
    return executor


async def aside(act: Callable[..., T], *args: object) -> T:
    """In a thread of its own, for what may take as long as it likes: no other work waits behind it, nor does a daemon
    that ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[..., None], outcome: object) -> None:
        if not done.done():  # or nobody waits for it any more
            set_outcome(outcome)

    def work() -> None:
        set_outcome: Callable[..., None] = done.set_result
        outcome: object
        try:
            outcome = act(*args)
        except Exception as error:  # noqa: BLE001 - it is whoever waits who has to know
            set_outcome, outcome = done.set_exception, error
        try:
            loop.call_soon_threadsafe(settle, set_outcome, outcome)
        except RuntimeError:
            pass  # the loop has ended

    try:
        threading.Thread(target=work, name=f"aside {act.__name__}", daemon=True).start()
    except RuntimeError as error:
        raise Unavailable(f"cannot start a thread: {error}", hint=_HINT, code="threads") from error
    return await done

"""Threads that are there before they are needed: with no room for another process the daemon still does its work.

A ThreadPoolExecutor starts threads on demand, and raises when it cannot, after it has queued the work: that then
happens all the same, unseen, when there is room again.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from paddock.errors import Unavailable


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
        hint = "end some processes: your account or the machine has no room for another (`ulimit -u`)"
        raise Unavailable(f"cannot start a thread: {error}", hint=hint, code="threads") from error
    return executor

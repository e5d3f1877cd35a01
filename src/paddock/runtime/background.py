"""What goes on beside the verbs: writes to the store, in their order, files that leave, and tasks nobody waits for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from paddock.runtime import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

log = logging.getLogger(__name__)
T = TypeVar("T")
_TRASH_PATIENCE_S = 2.0  # how long a daemon that ends waits for files to go; its successor does the rest


class Background:
    def __init__(self) -> None:
        # One thread for the store: a slow disk must not stop the event loop, and writes stay in order.
        self._writer = threads.pool(1, "store")
        self._sweeper = threads.pool(2, "trash")
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeps: set[asyncio.Future[None]] = set()

    def __repr__(self) -> str:
        return f"<Background {len(self._tasks)} tasks, {len(self._sweeps)} sweeps>"

    async def write(self, action: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, action, *args)

    def ask(self, action: Callable[[], T]) -> T:
        """The same from a thread, which waits: what is asked is answered between two writes."""
        return self._writer.submit(action).result()

    def queue(self, action: Callable[..., object], *args: object) -> None:
        """Write in order, but wait for nothing; a failure is only logged."""
        self._writer.submit(action, *args).add_done_callback(_log_failure)

    def later(self, coroutine: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("%s failed", task.get_name(), exc_info=task.exception())

    def sweep(self, action: Callable[[str], None], path: str) -> None:
        """Remove files beside everything else; what does not get done the next daemon finds in the trash."""
        future = asyncio.get_running_loop().run_in_executor(self._sweeper, action, path)
        self._sweeps.add(future)
        future.add_done_callback(self._swept)

    def _swept(self, future: asyncio.Future[None]) -> None:
        self._sweeps.discard(future)
        if not future.cancelled() and future.exception():
            log.warning("emptying the trash: %s", future.exception())

    async def close(self) -> None:
        """Tasks are cancelled, files get a moment to go, every write is done."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeps:
            await asyncio.wait(set(self._sweeps), timeout=_TRASH_PATIENCE_S)
        self._sweeper.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown()


def _log_failure(done: Future[object]) -> None:
    if error := done.exception():
        log.error("a record was not written: %s", error)

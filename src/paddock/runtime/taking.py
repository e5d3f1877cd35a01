"""Boxes that wait for their secrets before a new gateway has them: each by itself, so that no other waits too."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from paddock.runtime.box import Box

log = logging.getLogger(__name__)


class Taking:
    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<Taking {len(self._tasks)} boxes>"

    def __contains__(self, box: Box) -> bool:
        return box.row.id in self._tasks

    def begin(self, box: Box, work: Coroutine[None, None, None]) -> None:
        """In place of what was begun for a gateway before."""
        self.end(box)
        task = asyncio.get_running_loop().create_task(work, name=f"secrets of {box.name}")
        self._tasks[box.row.id] = task
        task.add_done_callback(functools.partial(self._done, box.row.id))

    async def settled(self, box: Box) -> None:
        """Until it is done, however that went."""
        while task := self._tasks.get(box.row.id):
            await asyncio.wait([task])

    def end(self, box: Box) -> None:
        if task := self._tasks.pop(box.row.id, None):
            task.cancel()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _done(self, box_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(box_id) is task:
            del self._tasks[box_id]
        if not task.cancelled() and task.exception():
            log.error("the %s were not told", task.get_name(), exc_info=task.exception())

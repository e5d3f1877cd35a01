"""What was frozen gets to the disk after its checkpoint was acknowledged, which is promised to take no time."""

from __future__ import annotations

import asyncio
import logging

from paddock import fs
from paddock.errors import PaddockError
from paddock.runtime import threads

log = logging.getLogger(__name__)
_PATIENCE_S = 2.0  # how long a daemon that ends waits for the disk; what has begun goes on without it


class Flushing:
    def __init__(self, place: str) -> None:
        self._place = place
        self._is_asked = False
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Flushing {self._place} {'begun' if self._task else 'idle'}>"

    def ask(self) -> None:
        """All who ask while one is under way are served by the next: a disk that is slow keeps one thread."""
        self._is_asked = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush(), name="flush layers")

    async def _flush(self) -> None:
        try:
            while self._is_asked:
                self._is_asked = False
                await threads.aside(sync, self._place)
        except (OSError, PaddockError) as error:
            log.warning("what was frozen last may not be on the disk: %s", error)
        finally:
            self._task = None

    async def close(self) -> None:
        if self._task is not None and not (await asyncio.wait([self._task], timeout=_PATIENCE_S))[0]:
            log.warning("what was frozen last is still on its way to the disk")


def sync(place: str) -> None:
    """Have on disk all that was written to the file system of a directory. May take long."""
    with fs.opened_directory(place) as fd:
        fs.sync_file_systems([fd])

"""Measure the disk space of a tree that an agent wrote, within bounds of work and time."""

from __future__ import annotations

import errno
import os
import stat

from paddock.fs.survey import GONE, Survey
from paddock.fs.walk import LISTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.fs.walk import Cursor

_BLOCK_BYTES = 512  # the unit of st_blocks on every file system


def tree_bytes(
    path: str, entries_max: int, seconds_max: float, *, least_bytes: int = 0, passing: Collection[str] = ()
) -> tuple[int, bool]:
    """The disk space below `path`, hard links counted once, and whether that is all of it.

    False means at least so much: a bound was reached, or a directory is closed to us. Every file counts for
    `least_bytes` or more, for whoever must not run out of inodes. Directories at paths of `passing` are not entered.
    """
    meter = _Meter(entries_max, seconds_max, least_bytes, passing)
    try:
        base = os.open(path, LISTABLE)
    except FileNotFoundError:
        return 0, True
    except NotADirectoryError:
        return os.lstat(path).st_blocks * _BLOCK_BYTES, True
    except PermissionError:
        return os.lstat(path).st_blocks * _BLOCK_BYTES, False
    try:
        meter.run(base)
    finally:
        os.close(base)
    return meter.total, meter.complete


class _Meter(Survey):
    passed_over = GONE | {errno.EXDEV}  # what is mounted there is none of the tree's

    def __init__(self, entries_max: int, seconds_max: float, least_bytes: int, passing: Collection[str]) -> None:
        super().__init__(entries_max, seconds_max)
        self._passing = {tuple(path.split("/")) for path in passing}
        self._least_bytes = least_bytes
        self._links: set[tuple[int, int]] = set()
        self.total = 0

    def begin(self, base: int) -> None:
        self._links.clear()
        self.total = os.fstat(base).st_blocks * _BLOCK_BYTES

    def look(self, cursor: Cursor) -> None:
        for entry in self.entries(cursor):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if not self._passing or self._way(cursor, entry.name) not in self._passing:
                    cursor.level.waiting.append(entry.name)
            elif status.st_nlink > 1 and self._seen(status):
                continue
            self.total += max(status.st_blocks * _BLOCK_BYTES, self._least_bytes)

    def _way(self, cursor: Cursor, name: str) -> tuple[str, ...]:
        return (*(level.name for level in cursor.levels[1:4]), name)  # further down there is none of them

    def _seen(self, status: os.stat_result) -> bool:
        identity = (status.st_dev, status.st_ino)
        if identity in self._links:
            return True
        self._links.add(identity)
        return False

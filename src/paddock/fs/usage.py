"""Measure the disk space of a tree that an agent wrote, within bounds of work and time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from paddock.fs.walk import LISTABLE, Cursor, Moved

_BLOCK_BYTES = 512  # the unit of st_blocks on every file system


def tree_bytes(path: str, entries_max: int, seconds_max: float, *, least_bytes: int = 0) -> tuple[int, bool]:
    """The disk space below `path`, hard links counted once, and whether that is all of it.

    False means at least so much: a bound was reached, or a directory is closed to us. Every file counts for
    `least_bytes` or more, for whoever must not run out of inodes.
    """
    meter = _Meter(entries_max, time.monotonic() + seconds_max, least_bytes)
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


class _Meter:
    def __init__(self, entries_max: int, deadline: float, least_bytes: int) -> None:
        self._entries_left = entries_max
        self._least_bytes = least_bytes
        self._deadline = deadline
        self._links: set[tuple[int, int]] = set()
        self.total = 0
        self.complete = True

    def run(self, base: int) -> None:
        while True:
            self._links.clear()
            self.complete = True
            self.total = os.fstat(base).st_blocks * _BLOCK_BYTES
            # A restart spends the same entries and seconds, so a tree in motion cannot keep us here.
            with contextlib.suppress(Moved), Cursor(base, open_up=False) as cursor:
                self._walk(cursor)
                return

    def _walk(self, cursor: Cursor) -> None:
        while True:
            if not cursor.level.listed and not self._list(cursor):
                self.complete = False
                return
            if cursor.level.waiting:
                self._down(cursor, cursor.level.waiting.pop())
            elif len(cursor.levels) > 1:
                cursor.up()
            else:
                return

    def _down(self, cursor: Cursor, name: str) -> None:
        try:
            cursor.down(name)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV}:
                self.complete = False

    def _list(self, cursor: Cursor) -> bool:
        """Count one directory; False when a bound was reached."""
        cursor.level.listed = True
        with os.scandir(cursor.fd) as entries:
            for entry in entries:
                if self._entries_left <= 0 or time.monotonic() > self._deadline:
                    return False
                self._entries_left -= 1
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    cursor.level.waiting.append(entry.name)
                elif status.st_nlink > 1 and self._seen(status):
                    continue
                self.total += max(status.st_blocks * _BLOCK_BYTES, self._least_bytes)
        return True

    def _seen(self, status: os.stat_result) -> bool:
        identity = (status.st_dev, status.st_ino)
        if identity in self._links:
            return True
        self._links.add(identity)
        return False

"""A look at every directory of a tree that an agent wrote, within bounds of work and time."""

from __future__ import annotations

import contextlib
import errno
import os
import time

from paddock.fs.walk import Cursor, Moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # it was a directory when it was listed


class Survey:
    """Whoever looks says at what: `begin` forgets what was seen, `look` sees one directory."""

    passed_over = GONE  # errors of a directory that leave the survey complete

    def __init__(self, entries_max: int, seconds_max: float) -> None:
        self._entries_left = entries_max
        self._deadline_s = time.monotonic() + seconds_max
        self.complete = True

    def run(self, base: int) -> None:
        """`complete` tells afterwards whether no bound was reached and no directory closed."""
        while True:
            self.complete = True
            self.begin(base)
            # A restart spends the same entries and seconds, so a tree in motion cannot keep us here.
            with contextlib.suppress(Moved), Cursor(base, open_up=False) as cursor:
                self._walk(cursor)
                return

    def begin(self, base: int) -> None:
        raise NotImplementedError

    def look(self, cursor: Cursor) -> None:
        """At `entries`; directories among them go to `cursor.level.waiting`."""
        raise NotImplementedError

    def entries(self, cursor: Cursor) -> Iterator[os.DirEntry[str]]:
        """Of the directory where the walk stands; the survey ends where a bound is reached."""
        with os.scandir(cursor.fd) as found:
            for entry in found:
                if self._entries_left <= 0 or time.monotonic() > self._deadline_s:
                    raise _Bound
                self._entries_left -= 1
                yield entry

    def _walk(self, cursor: Cursor) -> None:
        while True:
            if not cursor.level.listed:
                cursor.level.listed = True
                try:
                    self.look(cursor)
                except _Bound:
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
            self.complete &= error.errno in self.passed_over


class _Bound(Exception):
    """So much was not to be looked at."""

"""Which files changed while a run was on: names of a tree that an agent wrote, within bounds of work and time.

In a live workspace or a clone those are the files whose change time, which nobody can set, is not before the run's
start. Others may have changed them too, and what was deleted is not seen. Over a review it is what the box has in its
own layer, where a deletion is an entry too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import TYPE_CHECKING

from paddock.fs.walk import LISTABLE, Cursor, Moved
from paddock.limits import RUN_NAMES_MAX, RUN_WALK_ENTRIES, RUN_WALK_S
from paddock.reports import ChangedInfo
from paddock.text import neutralise
from paddock.workspace import overlay
from paddock.workspace.nested import is_dot_git

if TYPE_CHECKING:
    from collections.abc import Collection

_NAME_CHARS = 256
_SORTED_AT = 64 * RUN_NAMES_MAX
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def files(
    root: str,
    since_ns: int,
    hidden: Collection[str] = (),
    *,
    layer: bool = False,
    entries_max: int = RUN_WALK_ENTRIES,
    seconds_max: float = RUN_WALK_S,
) -> ChangedInfo:
    """Below `root`, but for repositories' own files and what is `hidden`. `layer`: it is the upper one of a review."""
    look = _Look(since_ns, hidden, layer=layer, entries_max=entries_max, deadline_s=time.monotonic() + seconds_max)
    try:
        base = os.open(root, LISTABLE)
    except OSError:
        return ChangedInfo(complete=False)
    try:
        look.run(base)
    except OSError:
        look.complete = False
    finally:
        os.close(base)
    names = tuple(neutralise(name, _NAME_CHARS) for name in sorted(look.names)[:RUN_NAMES_MAX])
    return ChangedInfo(count=look.count, names=names, complete=look.complete)


class _Look:
    def __init__(
        self, since_ns: int, hidden: Collection[str], *, layer: bool, entries_max: int, deadline_s: float
    ) -> None:
        self._since_ns = since_ns
        self._hidden = {path.strip("/") for path in hidden}
        self._layer = layer
        self._entries_left = entries_max
        self._deadline_s = deadline_s
        self.count = 0
        self.names: list[str] = []
        self.complete = True

    def run(self, base: int) -> None:
        while True:
            self.count, self.complete = 0, True
            self.names.clear()
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
            self.complete &= error.errno in _GONE

    def _list(self, cursor: Cursor) -> bool:
        """One directory; False when a bound was reached."""
        cursor.level.listed = True
        above = "/".join(level.name for level in cursor.levels[1:])[-4 * _NAME_CHARS :]
        with os.scandir(cursor.fd) as entries:
            for entry in entries:
                if self._entries_left <= 0 or time.monotonic() > self._deadline_s:
                    return False
                self._entries_left -= 1
                path = f"{above}/{entry.name}" if above else entry.name
                if is_dot_git(entry.name) or path in self._hidden:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    cursor.level.waiting.append(entry.name)
                elif status.st_ctime_ns >= self._since_ns and self._counts(cursor.fd, entry.name, status):
                    self._take(path)
        return True

    def _counts(self, at: int, name: str, status: os.stat_result) -> bool:
        if stat.S_ISREG(status.st_mode):
            return True
        return self._layer and (stat.S_ISLNK(status.st_mode) or overlay.is_whiteout(at, name, status))

    def _take(self, path: str) -> None:
        self.count += 1
        self.names.append(path)
        if len(self.names) > _SORTED_AT:
            self.names = sorted(self.names)[:RUN_NAMES_MAX]

"""Which files changed while a run was on: names of a tree that an agent wrote, within bounds of work and time.

In a live workspace or a clone those are the files whose change time, which nobody can set, is not before the run's
start. Others may have changed them too, and what was deleted is not seen. Over a review it is what the box has in its
own layer, where a deletion is an entry too.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from paddock.fs.survey import Survey
from paddock.fs.walk import LISTABLE
from paddock.limits import RUN_NAMES_MAX, RUN_WALK_ENTRIES, RUN_WALK_S
from paddock.reports import ChangedInfo
from paddock.text import neutralise
from paddock.workspace import overlay
from paddock.workspace.nested import is_dot_git

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.fs.walk import Cursor

_NAME_CHARS = 256
_SORTED_AT = 64 * RUN_NAMES_MAX


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
    look = _Look(since_ns, hidden, layer=layer, entries_max=entries_max, seconds_max=seconds_max)
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


class _Look(Survey):
    def __init__(
        self, since_ns: int, hidden: Collection[str], *, layer: bool, entries_max: int, seconds_max: float
    ) -> None:
        super().__init__(entries_max, seconds_max)
        self._since_ns = since_ns
        self._hidden = {path.strip("/") for path in hidden}
        self._layer = layer
        self.count = 0
        self.names: list[str] = []

    def begin(self, _base: int) -> None:
        self.count = 0
        self.names.clear()

    def look(self, cursor: Cursor) -> None:
        above = "/".join(level.name for level in cursor.levels[1:])[-4 * _NAME_CHARS :]
        for entry in self.entries(cursor):
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

    def _counts(self, at: int, name: str, status: os.stat_result) -> bool:
        if stat.S_ISREG(status.st_mode):
            return True
        return self._layer and (stat.S_ISLNK(status.st_mode) or overlay.is_whiteout(at, name, status))

    def _take(self, path: str) -> None:
        self.count += 1
        self.names.append(path)
        if len(self.names) > _SORTED_AT:
            self.names = sorted(self.names)[:RUN_NAMES_MAX]

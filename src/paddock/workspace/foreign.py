"""Files of a workspace that a review can show but not change: those of another user or another group.

A change copies the file into the box's layer first, with its owner and group; the kernel refuses (EOVERFLOW, "value too
large for defined data type") to make a file of somebody who is nobody in the box's user namespace. An ordinary user
may have one user and one group there.
"""

from __future__ import annotations

import collections
import itertools
import os

from paddock import fs
from paddock.workspace import repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_SHOWN = 3


def ids(workspace: str) -> tuple[int, int]:
    """Whose files a review can change: a root caller's boxes go by the owner of the workspace."""
    if os.getuid():
        return os.getuid(), os.getgid()
    owner = os.stat(workspace)
    return owner.st_uid, owner.st_gid


def near_the_top(workspace: str, entries_max: int) -> tuple[str, ...]:
    """Those among the first entries of a workspace; `.git` is not looked at, since a box has its own."""
    own = ids(workspace)
    found: list[str] = []
    waiting = collections.deque([""])
    with repository.opened(workspace) as root:
        while waiting and entries_max > 0:
            place = waiting.popleft()
            try:
                entries_max -= _look(root, place, own, entries_max, found, waiting)
            except OSError as error:  # it is gone, closed to us, or something is mounted there
                if fs.is_scarcity(error):
                    raise
    return tuple(sorted(found))


def _look(
    root: int, place: str, own: tuple[int, int], most: int, found: list[str], waiting: collections.deque[str]
) -> int:
    count = 0
    fd = fs.open_beneath(root, place or ".", os.O_RDONLY | os.O_DIRECTORY, one_mount=True)
    try:
        with os.scandir(fd) as entries:
            for entry in itertools.islice(entries, most):
                count += 1
                if entry.name == ".git":
                    continue
                path = f"{place}/{entry.name}" if place else entry.name
                status = entry.stat(follow_symlinks=False)
                if (status.st_uid, status.st_gid) != own:
                    found.append(path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
    finally:
        os.close(fd)
    return count


def words(paths: Collection[str]) -> str:
    known = list(paths)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    verb = "belongs" if len(known) == 1 else "belong"
    return (
        f"{', '.join(known[:_SHOWN])}{more} {verb} to another user or group: "
        "in a review such files can be read, but not changed (chown them, or use another mode)"
    )

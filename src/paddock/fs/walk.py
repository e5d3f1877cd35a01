"""A walk through a tree that an agent wrote and may still be changing.

Such a tree may be ten thousand levels deep, closed (mode 0000) and full of odd names. So a walk holds one descriptor,
whatever the depth, and never a path: it goes down by name without following links, and up by `..`, where it must find
the directory it came from. Another file system or a bind mount inside the tree is never entered: it may be the user's
own project.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The directory of a name itself, to list it or to go on from it: never the one that a link leads to.
LISTABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_SCARCITY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_scarcity(error: OSError) -> bool:
    """Whether there was no room to look, which says nothing about what is there: whoever looks for danger must stop."""
    return error.errno in _SCARCITY


def is_missing(path: str) -> bool:
    """Whether nothing is there. What cannot be looked at is not missing: OSError says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


class Moved(Exception):
    """The directory above is not the one we came from."""


class Level:
    """One directory between the top and where the walk stands."""

    __slots__ = ("identity", "listed", "name", "stuck", "waiting")

    def __init__(self, name: str, status: os.stat_result) -> None:
        self.name = name
        self.identity = (status.st_dev, status.st_ino)
        self.waiting: list[str] = []  # directories below that were seen and not yet entered
        self.listed = False
        self.stuck: set[str] = set()  # names that cannot be removed


class Cursor:
    """Where a walk stands: one open directory and the levels above it."""

    def __init__(self, base: int, *, open_up: bool) -> None:
        self._base = base
        self._mount = mount_id(base)
        self._open_up = open_up
        self.fd = base
        self.levels = [Level("", os.fstat(base))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._go(self._base)

    @property
    def level(self) -> Level:
        return self.levels[-1]

    def down(self, name: str) -> None:
        place = os.open(name, PLACE, dir_fd=self.fd)
        try:
            if mount_id(place) != self._mount:
                raise OSError(errno.EXDEV, "something is mounted there", name)
            if self._open_up:
                open_up(place)
            # "." asks for the right to list and the right to pass, which the way back up will need.
            below = os.open(".", LISTABLE, dir_fd=place)
        finally:
            os.close(place)
        self._go(below)
        self.levels.append(Level(name, os.fstat(below)))

    def up(self) -> Level:
        """Leave the directory for the one above and return the level that was left."""
        left = self.levels.pop()
        if len(self.levels) == 1:
            self._go(self._base)
            return left
        try:
            self._go(os.open("..", LISTABLE, dir_fd=self.fd))
        except OSError as error:
            raise Moved from error
        status = os.fstat(self.fd)
        if (status.st_dev, status.st_ino) != self.level.identity:
            raise Moved
        return left

    def _go(self, fd: int) -> None:
        if self.fd not in {self._base, fd}:
            os.close(self.fd)
        self.fd = fd


def mount_id(fd: int) -> int:
    """The mount a descriptor is on; it tells bind mounts of one file system apart, which st_dev does not."""
    info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(info, 512).partition(b"mnt_id:")[2].split(None, 1)[0])
    finally:
        os.close(info)


def file_system(fd: int) -> str:
    """The type of the file system a descriptor is on, as the mount table names it; empty if it is not in there."""
    wanted = b"%d" % mount_id(fd)
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            if line.partition(b" ")[0] == wanted:
                return line.partition(b" - ")[2].partition(b" ")[0].decode("ascii", "replace")
    return ""


def open_up(place: int) -> None:
    """Give the owner, us, all rights to a directory; fchmod refuses O_PATH descriptors, their /proc name does not."""
    mode = stat.S_IMODE(os.fstat(place).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):  # not ours: what follows will fail and say so
            os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRWXU)

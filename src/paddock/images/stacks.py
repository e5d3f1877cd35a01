"""What layers are together, and in what two stacks of them differ.

Reads layers that nobody changes: frozen ones, and the upper of a box that does not run. No link is followed: a path is
looked up only below directories that were found to be directories. A box may have made millions of files, or one of a
terabyte that is a hole: what is held in memory, read and waited for has an end.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from paddock import fs
from paddock.images import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PIECE_BYTES: Final = 1 << 20
_PATH_BYTES: Final = 4000  # below PATH_MAX
_PATHS_BYTES: Final = 256 << 20  # of all that are held at once
_PATH_HEAD_BYTES: Final = 200  # what one takes besides its text
_NAMES_MAX: Final = 1_000_000  # of one directory
_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    kind: Literal["added", "removed", "changed"]
    path: str


class Stack:
    """`trees` are directories, lowest first."""

    def __init__(self, trees: Sequence[str]) -> None:
        self.trees = tuple(trees)
        self._known: dict[str, tuple[str, ...]] = {"": self.trees[::-1]}

    def __repr__(self) -> str:
        return f"<Stack {len(self.trees)} layers>"

    def find(self, path: str) -> tuple[str, os.stat_result] | None:
        """Where the entry at a path lies; None if there is none, or a layer hides it."""
        parent, _, name = path.rpartition("/")
        for place in self.places(parent):
            status = _status(f"{place}/{name}")
            if status is not None:
                return None if marks.is_whiteout(status) else (f"{place}/{name}", status)
        return None

    def places(self, path: str) -> tuple[str, ...]:
        """The directories that are one at this path, the top one first."""
        if path not in self._known:
            parent, _, name = path.rpartition("/")
            self._known[path] = tuple(_merged(f"{place}/{name}" for place in self.places(parent)))
        return self._known[path]


def _merged(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        status = _status(place)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            return  # hidden, or replaced by something else
        yield place
        if _is_opaque(place):
            return


class _Enough(Exception):
    """There is more than we look at."""


class _Room:
    """How much may still be held, and how long it may still take."""

    def __init__(self, size_bytes: int, seconds: float) -> None:
        self._bytes = size_bytes
        self._end_s = time.monotonic() + seconds

    def take(self, path: str) -> bool:
        self._bytes -= len(path) + _PATH_HEAD_BYTES
        return self._bytes >= 0 and time.monotonic() < self._end_s

    def check(self) -> None:
        if time.monotonic() >= self._end_s:
            raise _Enough


def differences(
    one: Sequence[str],
    other: Sequence[str],
    most: int,
    *,
    paths_bytes: int = _PATHS_BYTES,
    seconds: float = _SECONDS_MAX,
) -> tuple[list[Difference], bool]:
    """From `one` to `other`, by path, at most so many; and whether these are all. What both stand on is not read."""
    common = sum(1 for _ in _alike(one, other))
    before, after = Stack(one), Stack(other)
    room = _Room(paths_bytes, seconds)
    found: list[Difference] = []
    paths, is_whole = _paths([*one[common:], *other[common:]], [before, after], room)
    for path in paths:
        try:
            room.check()
            kind = _kind(before.find(path), after.find(path), room)
        except _Enough:
            return found, False
        if kind is None:
            continue
        if len(found) == most:
            return found, False
        found.append(Difference(kind=kind, path=path))
    return found, is_whole


def _alike(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left


def _paths(trees: Sequence[str], stacks: Sequence[Stack], room: _Room) -> tuple[list[str], bool]:
    """Every path at which a tree has something, and all below what only one of the stacks shows; and whether that is
    all of them.
    """
    found: set[str] = set()
    waiting: list[tuple[str, tuple[str, ...], str]] = [("", tuple(trees), "")]
    while waiting:
        path, around, own = waiting.pop()
        places = tuple(f"{place}/{own}" for place in around) if own else around
        # A directory that a layer hides, or replaces as a whole, hides what layers below it have in it.
        whole = any(_hides(place) for place in places)
        if whole:
            lower = (place for stack in stacks for place in stack.places(path))
            places = tuple(dict.fromkeys((*places, *lower)))
        for name in dict.fromkeys(name for place in places for name in _names(place)):
            inner = f"{path}/{name}" if path else name
            if len(os.fsencode(inner)) > _PATH_BYTES:
                continue
            if not room.take(inner):
                return sorted(found), False
            found.add(inner)
            waiting.append((inner, places, name))
    return sorted(found), True


def _hides(place: str) -> bool:
    status = _status(place)
    return status is not None and (not stat.S_ISDIR(status.st_mode) or _is_opaque(place))


def _names(place: str) -> list[str]:
    try:
        fd = os.open(place, fs.LISTABLE)
    except OSError:  # no directory
        return []
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in itertools.islice(entries, _NAMES_MAX)]
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_opaque(place: str) -> bool:
    fd = os.open(place, fs.LISTABLE)
    try:
        return marks.is_opaque(fd)
    finally:
        os.close(fd)


Found = tuple[str, os.stat_result] | None


def _kind(before: Found, after: Found, room: _Room) -> Literal["added", "removed", "changed"] | None:
    if before is None or after is None:
        if before is after:
            return None
        return "added" if before is None else "removed"
    return None if before[0] == after[0] or _same(*before, *after, room) else "changed"


def _same(one: str, was: os.stat_result, other: str, is_now: os.stat_result, room: _Room) -> bool:
    if _facts(was) != _facts(is_now):
        return False
    if stat.S_ISLNK(was.st_mode):
        return os.readlink(one) == os.readlink(other)
    if not stat.S_ISREG(was.st_mode):
        return True
    return was.st_size == is_now.st_size and _same_bytes(one, other, was.st_size, room)


def _facts(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mode, status.st_uid, status.st_gid, status.st_rdev


def _same_bytes(one: str, other: str, size: int, room: _Room) -> bool:
    """Where both have a hole they are the same, and nothing is read."""
    with open(one, "rb", 0, opener=_plainly) as left, open(other, "rb", 0, opener=_plainly) as right:
        fds = left.fileno(), right.fileno()
        at = 0
        while (at := min(_next(fd, at, os.SEEK_DATA, size) for fd in fds)) < size:
            room.check()
            end = min(max(_next(fd, at, os.SEEK_HOLE, size) for fd in fds), at + _PIECE_BYTES)
            if os.pread(fds[0], end - at, at) != os.pread(fds[1], end - at, at):
                return False
            at = end
        return True


def _next(fd: int, at: int, what: int, size: int) -> int:
    try:
        return os.lseek(fd, at, what)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing but a hole up to its end
            raise
        return size


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

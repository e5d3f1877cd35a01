"""What layers are together, and in what two stacks of them differ.

Reads layers that nobody changes: frozen ones, and the upper of a box that does not run. No link is followed: a path is
looked up only below directories that were found to be directories.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from paddock.images import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PIECE_BYTES: Final = 1 << 20
_LISTABLE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_BYTES: Final = 4000  # below PATH_MAX


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


def differences(one: Sequence[str], other: Sequence[str], most: int) -> tuple[list[Difference], bool]:
    """From `one` to `other`, by path, at most so many; and whether these are all. What both stand on is not read."""
    common = sum(1 for _ in _alike(one, other))
    before, after = Stack(one), Stack(other)
    found: list[Difference] = []
    for path in _paths([*one[common:], *other[common:]], [before, after]):
        kind = _kind(before.find(path), after.find(path))
        if kind is None:
            continue
        if len(found) == most:
            return found, False
        found.append(Difference(kind=kind, path=path))
    return found, True


def _alike(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left


def _paths(trees: Sequence[str], stacks: Sequence[Stack]) -> list[str]:
    """Every path at which a tree has something, and all below what only one of the stacks shows."""
    found: set[str] = set()
    waiting = [("", tuple(trees))]
    while waiting:
        path, places = waiting.pop()
        # A directory that a layer hides, or replaces as a whole, hides what layers below it have in it.
        whole = any(_hides(place) for place in places)
        if whole:
            lower = (place for stack in stacks for place in stack.places(path))
            places = tuple(dict.fromkeys((*places, *lower)))
        names = sorted({name for place in places for name in _names(place)})
        for name in names:
            inner = f"{path}/{name}" if path else name
            if len(os.fsencode(inner)) > _PATH_BYTES:
                continue
            found.add(inner)
            waiting.append((inner, tuple(f"{place}/{name}" for place in places)))
    return sorted(found)


def _hides(place: str) -> bool:
    status = _status(place)
    return status is not None and (not stat.S_ISDIR(status.st_mode) or _is_opaque(place))


def _names(place: str) -> list[str]:
    try:
        fd = os.open(place, _LISTABLE)
    except OSError:  # no directory
        return []
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_opaque(place: str) -> bool:
    fd = os.open(place, _LISTABLE)
    try:
        return marks.is_opaque(fd)
    finally:
        os.close(fd)


Found = tuple[str, os.stat_result] | None


def _kind(before: Found, after: Found) -> Literal["added", "removed", "changed"] | None:
    if before is None or after is None:
        if before is after:
            return None
        return "added" if before is None else "removed"
    return None if before[0] == after[0] or _same(*before, *after) else "changed"


def _same(one: str, was: os.stat_result, other: str, is_now: os.stat_result) -> bool:
    if _facts(was) != _facts(is_now):
        return False
    if stat.S_ISLNK(was.st_mode):
        return os.readlink(one) == os.readlink(other)
    if not stat.S_ISREG(was.st_mode):
        return True
    return was.st_size == is_now.st_size and _same_bytes(one, other)


def _facts(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mode, status.st_uid, status.st_gid, status.st_rdev


def _same_bytes(one: str, other: str) -> bool:
    with open(one, "rb", opener=_plainly) as left, open(other, "rb", opener=_plainly) as right:
        while True:
            data = left.read(_PIECE_BYTES)
            if data != right.read(_PIECE_BYTES):
                return False
            if not data:
                return True


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

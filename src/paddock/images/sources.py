"""Where a COPY takes files from: the build directory, or the layers of another stage or image.

Paths are relative, without `.` and `..` in them. No link is followed on the host; those of a stage lead where they
would lead in it.
"""

from __future__ import annotations

import itertools
import os
import stat
from typing import TYPE_CHECKING, Final, Protocol

from paddock import fs
from paddock.errors import UserError
from paddock.images import lookup, marks
from paddock.images.stacks import Stack
from paddock.limits import BUILD_COPY_ENTRIES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Files(Protocol):
    def settled(self, path: str) -> str:
        """The path that this one leads to."""

    def names(self, path: str) -> list[str]:
        """What a directory holds, in no order; OSError if it is none."""

    def status(self, path: str) -> os.stat_result | None:
        """Of what is there, a link itself; None if nothing is."""

    def open(self, path: str) -> int:
        """A file, to read."""

    def link(self, path: str) -> str: ...


class Directory:
    """`root` is an open directory, the caller's."""

    def __init__(self, root: int) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"<Directory {self._root}>"

    def settled(self, path: str) -> str:
        return path

    def names(self, path: str) -> list[str]:
        fd = self._beneath(path, fs.LISTABLE)
        try:
            with os.scandir(fd) as entries:
                found = [entry.name for entry in itertools.islice(entries, BUILD_COPY_ENTRIES + 1)]
        finally:
            os.close(fd)
        if len(found) > BUILD_COPY_ENTRIES:
            raise _too_many(path)
        return found

    def status(self, path: str) -> os.stat_result | None:
        fd = self._beneath(os.path.dirname(path), fs.LISTABLE)
        try:
            return os.stat(os.path.basename(path) or ".", dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        finally:
            os.close(fd)

    def open(self, path: str) -> int:
        return self._beneath(path, _FILE)

    def open_directory(self, path: str) -> int:
        return self._beneath(path, fs.LISTABLE)

    def link(self, path: str) -> str:
        fd = self._beneath(os.path.dirname(path), fs.LISTABLE)
        try:
            return os.readlink(os.path.basename(path), dir_fd=fd)
        finally:
            os.close(fd)

    def _beneath(self, path: str, flags: int) -> int:
        fd = os.dup(self._root)
        names = [name for name in path.split("/") if name]
        for number, name in enumerate(names):
            try:
                step = os.open(name, flags if number == len(names) - 1 else fs.LISTABLE, dir_fd=fd)
            finally:
                os.close(fd)
            fd = step
        return fd


class Layered:
    """Layers as the root that they are together; `trees` are directories that nobody changes, lowest first."""

    def __init__(self, trees: Sequence[str]) -> None:
        self._trees = tuple(trees)
        self._stack = Stack(trees)

    def __repr__(self) -> str:
        return f"<Layered {len(self._trees)} layers>"

    def settled(self, path: str) -> str:
        return lookup.place(self._trees, path).path

    def names(self, path: str) -> list[str]:
        places = self._stack.places(path)
        if not places:
            raise NotADirectoryError(path)
        found: dict[str, bool] = {}
        for place in places:  # the top one first: what it says of a name counts
            with os.scandir(place) as entries:
                for entry in entries:
                    found.setdefault(entry.name, not marks.is_whiteout(entry.stat(follow_symlinks=False)))
                    if len(found) > BUILD_COPY_ENTRIES:
                        raise _too_many(path)
        return [name for name, is_there in found.items() if is_there]

    def status(self, path: str) -> os.stat_result | None:
        if not path:
            return os.stat(self._trees[-1]) if self._trees else None
        found = self._stack.find(path)
        return found[1] if found else None

    def open(self, path: str) -> int:
        return os.open(self._place(path), _FILE)

    def link(self, path: str) -> str:
        return os.readlink(self._place(path))

    def _place(self, path: str) -> str:
        found = self._stack.find(path)
        if found is None or stat.S_ISDIR(found[1].st_mode):
            raise FileNotFoundError(path)
        return found[0]


def _too_many(path: str) -> UserError:
    return UserError(f"{neutralise(path) or '/'!r} holds more than {BUILD_COPY_ENTRIES} files", code="too-large")

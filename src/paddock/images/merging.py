"""Several layers become one: what they show together, as a directory of its own.

Two uses. To shorten a chain, layers that nobody changes are merged into another such: files are not copied, they get
one more name, and what hides something of the layers below still does. To give a box files of its own, all layers are
copied together, and nothing is left of what they hid from each other. Reads layers as stacks.py does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.images import marks

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTABLE: Final = os.O_RDONLY | os.O_DIRECTORY
_PATH_BYTES: Final = 4000  # below PATH_MAX: boxes nest directories without end
_PATHS_BYTES: Final = 512 << 20  # of directories, held until all is done
_PATH_HEAD_BYTES: Final = 200  # what one takes besides its text
_UNLINKABLE: Final = frozenset({errno.EMLINK, errno.EPERM, errno.EXDEV})


def merge(trees: Sequence[str], target: str) -> None:
    """Make `target` of layers, lowest first, that lie above others, on the same file system."""
    with contextlib.ExitStack() as opened:
        _Merge(trees, target, opened, is_whole=False).run([""])


def copy(trees: Sequence[str], paths: Sequence[str], target: str) -> None:
    """Make `target` of what a whole chain shows at these paths; what is not there is left out."""
    with contextlib.ExitStack() as opened:
        _Merge(trees, target, opened, is_whole=True).run(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    path: str
    layers: tuple[int, ...]  # that are one there, by number, the top one first
    hides: bool  # what is below them


class _Merge:
    def __init__(self, trees: Sequence[str], target: str, opened: contextlib.ExitStack, *, is_whole: bool) -> None:
        self._roots = [os.open(tree, _LISTABLE | os.O_NOFOLLOW | os.O_CLOEXEC) for tree in reversed(trees)]
        for root in self._roots:
            opened.callback(os.close, root)
        os.mkdir(target, 0o700)
        self._copy = os.open(target, _LISTABLE | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened.callback(os.close, self._copy)
        self._entries = fs.Entries(self._copy, without=marks.OURS)
        self._is_whole = is_whole
        self._made: list[_Directory] = []
        self._room_bytes = _PATHS_BYTES

    def run(self, paths: Sequence[str]) -> None:
        waiting: list[_Directory] = []
        for path in paths:
            waiting += self._begin(path)
        while waiting:
            place = waiting.pop()
            if len(os.fsencode(place.path)) > _PATH_BYTES:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            self._made.append(place)
            waiting += self._directory(place)
        for place in reversed(self._made):  # last: a directory may be closed, and what is put into it sets its times
            self._finish(place)

    def _begin(self, path: str) -> list[_Directory]:
        """The directories on the way to a path, without what else is in them, and then what is there."""
        place = _Directory(path=".", layers=tuple(range(len(self._roots))), hides=False)
        if not path:
            return [place]
        self._note(place)
        *way, last = path.split("/")
        for name in way:
            with contextlib.ExitStack() as opened:
                found = self._below(place, name, self._opened(place, opened))
            if found is None:
                return []
            place = found
            with contextlib.suppress(FileExistsError):
                os.mkdir(place.path, 0o700, dir_fd=self._copy)
            self._note(place)
        with contextlib.ExitStack() as opened:
            fds = self._opened(place, opened)
            to = self._target(place.path, opened)
            return self._entry(place, last, fds, to)

    def _note(self, place: _Directory) -> None:
        if place not in self._made:
            self._made.append(place)

    def _directory(self, place: _Directory) -> list[_Directory]:
        with contextlib.ExitStack() as opened:
            fds = self._opened(place, opened)
            to = self._target(place.path, opened)
            names = dict.fromkeys(name for fd in fds for name in os.listdir(fd))
            return [inner for name in names for inner in self._entry(place, name, fds, to)]

    def _entry(self, place: _Directory, name: str, fds: list[int], to: int) -> list[_Directory]:
        """Put it there; a directory waits for what is in it."""
        for fd in fds:
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if marks.is_whiteout(status) and self._is_whole:
                return []
            if not stat.S_ISDIR(status.st_mode):
                self._put(fd, to, name, f"{place.path}/{name}", status)
                return []
            inner = self._below(place, name, fds)
            assert inner is not None
            self._room_bytes -= len(inner.path) + _PATH_HEAD_BYTES
            if self._room_bytes < 0:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            os.mkdir(name, 0o700, dir_fd=to)
            return [inner]
        return []

    def _put(self, fd: int, to: int, name: str, path: str, status: os.stat_result) -> None:
        if not self._is_whole:
            try:
                os.link(name, name, src_dir_fd=fd, dst_dir_fd=to, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _UNLINKABLE:
                    raise
            else:
                return
        self._entries.copy(fd, to, name, path, status)

    def _below(self, place: _Directory, name: str, fds: list[int]) -> _Directory | None:
        """The directory of this name, if it is one to who looks from above."""
        layers: list[int] = []
        hides = False
        for number, fd in zip(place.layers, fds, strict=True):
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(status.st_mode):
                hides = True
                break
            layers.append(number)
            with fs.opened_beneath(fd, name, _LISTABLE) as inner:
                hides = marks.is_opaque(inner)
            if hides:
                break
        path = f"{place.path}/{name}"
        return _Directory(path=path, layers=tuple(layers), hides=hides) if layers else None

    def _opened(self, place: _Directory, opened: contextlib.ExitStack) -> list[int]:
        fds = [fs.open_beneath(self._roots[number], place.path, _LISTABLE) for number in place.layers]
        for fd in fds:
            opened.callback(os.close, fd)
        return fds

    def _target(self, path: str, opened: contextlib.ExitStack) -> int:
        fd = fs.open_beneath(self._copy, path, _LISTABLE)
        opened.callback(os.close, fd)
        return fd

    def _finish(self, place: _Directory) -> None:
        with contextlib.ExitStack() as opened:
            top = fs.open_beneath(self._roots[place.layers[0]], place.path, _LISTABLE)
            opened.callback(os.close, top)
            made = self._target(place.path, opened)
            if place.hides and not self._is_whole:
                marks.make_opaque(made)
            fs.copy_facts(top, made, os.fstat(top), without=marks.OURS)

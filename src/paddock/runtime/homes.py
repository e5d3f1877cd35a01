"""The home of a box as the host reads and writes it, while nothing of the box runs.

Since a checkpoint it is a chain: layers that nobody changes, and above them a directory with what is new. It is read
as the box sees it, and written in that directory alone. No link is followed in either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from paddock import fs
from paddock.images import chains, marks
from paddock.images.layers import Layers
from paddock.runtime import boxparts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model import BoxSpec


class Home:
    def __init__(self, upper: str, below: Sequence[str] = ()) -> None:
        """`below` are directories, lowest first."""
        self.upper = upper
        self.below = tuple(below)

    def __repr__(self) -> str:
        return f"<Home {self.upper} above {len(self.below)} layers>"

    def open(self, path: str, flags: int) -> int:
        """What the box sees at a path, as fs.open_beneath."""
        return chains.open_entry([*self.below, self.upper], path, flags)

    def read(self, path: str, bytes_max: int) -> bytes:
        fd = self.open(path, os.O_RDONLY)
        try:
            with open(fd, "rb", closefd=False) as file:  # which would leave the descriptor of a directory open
                data = file.read(bytes_max + 1)
        finally:
            os.close(fd)
        if len(data) > bytes_max:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return data

    def has(self, path: str) -> bool:
        try:
            os.close(self.open(path, os.O_PATH))
        except FileNotFoundError:
            return False
        return True

    def open_directory(self, path: str) -> int:
        """To write in, made where it is missing, step by step: a link or a file in its place is an error."""
        at = os.open(self.upper, fs.LISTABLE)
        way = ""
        for name in filter(None, path.split("/")):
            way = f"{way}/{name}" if way else name
            try:
                self._make(at, name, way)
                below = fs.open_beneath(at, name, os.O_RDONLY | os.O_DIRECTORY)
            finally:
                os.close(at)
            at = below
        return at

    def _make(self, at: int, name: str, path: str) -> None:
        try:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            os.mkdir(name, self._mode(path), dir_fd=at)
            return
        if marks.is_whiteout(status):  # the box removed what layers below have of this name: they stay hidden
            _exchange(at, name)

    def _mode(self, path: str) -> int:
        """Of a directory that the box has below already, and else of a new one."""
        try:
            fd = chains.open_entry(self.below, path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return 0o700
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        if (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            raise PermissionError(errno.EPERM, "a user of the box has this directory", path)
        return stat.S_IMODE(status.st_mode) & 0o777


def of(directory: str, spec: BoxSpec, layers: str) -> Home:
    """Of the box in this directory; `layers` is where the store of layers lies."""
    below = boxparts.places(Layers(layers), spec.home_layers) if spec.home_layers else ()
    return Home(f"{directory}/{boxparts.HOME}", below)


def _exchange(at: int, name: str) -> None:
    fresh = f".{name}.paddock"
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(fresh, dir_fd=at)
    os.mkdir(fresh, 0o700, dir_fd=at)
    fd = os.open(fresh, fs.LISTABLE, dir_fd=at)
    try:
        marks.make_opaque(fd)
    finally:
        os.close(fd)
    fs.exchange(at, fresh, at, name)
    os.unlink(fresh, dir_fd=at)

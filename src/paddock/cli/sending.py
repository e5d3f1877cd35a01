"""Into a box: a file or a tree of the host, read through descriptors that follow no link.

The tree may be one that a box writes. A file swapped for a link to a secret while we walk is refused, not read.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import TYPE_CHECKING

from paddock import fs
from paddock.cli import hostpaths
from paddock.errors import PaddockError, UserError
from paddock.limits import FRAME_DATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.cli.boxfiles import BoxFiles
    from paddock.cli.copying import Skipped

_OWNER_ALL = 0o700


def send(files: BoxFiles, source: str, target: tuple[str, bool], trees: Sequence[str], skipped: Skipped) -> None:
    """Copy `source` into the directory `target` of the box, or as `target`; its second part demands a directory."""
    path = hostpaths.resolve(source, trees)
    try:
        fd = hostpaths.open_resolved(path, trees, os.O_RDONLY)
    except OSError as error:
        hint = "give a file or a directory that exists and that you may read"
        raise UserError(f"cannot read {source}: {error.strerror}", hint=hint, code="no-file") from error
    try:
        place, into = target
        if into or _is_directory(files, place):
            place = posixpath.join(place, os.path.basename(path))
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            files.write(place, mode & 0o777, _chunks(fd))
        elif stat.S_ISDIR(mode):
            _Tree(files, fd, place, skipped).send(mode)
        else:
            raise UserError(f"{source} is no file and no directory", hint="copy one of these", code="not-a-file")
    finally:
        os.close(fd)


def _is_directory(files: BoxFiles, place: str) -> bool:
    try:
        return files.stat(place).kind == "directory"
    except UserError:
        return False


class _Tree:
    def __init__(self, files: BoxFiles, root: int, place: str, skipped: Skipped) -> None:
        self._files = files
        self._root = root
        self._place = place
        self._skipped = skipped

    def send(self, mode: int) -> None:
        self._files.make_dir(self._place, mode & 0o777 | _OWNER_ALL)
        waiting = ["."]
        while waiting:
            directory = waiting.pop()
            try:
                at = fs.open_beneath(self._root, directory, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                self._skipped.add(directory, error.strerror or str(error))
                continue
            try:
                for name in sorted(os.listdir(at)):
                    relative = posixpath.normpath(f"{directory}/{name}")
                    if self._entry(at, name, relative):
                        waiting.append(relative)
            finally:
                os.close(at)

    def _entry(self, at: int, name: str, relative: str) -> bool:
        """Copy one; True for a directory, whose content is still to come."""
        inside = posixpath.join(self._place, relative)
        try:
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                self._files.make_dir(inside, mode & 0o777 | _OWNER_ALL)
                return True
            if stat.S_ISLNK(mode):
                self._link(inside, os.readlink(name, dir_fd=at))
            elif stat.S_ISREG(mode):
                self._file(at, name, inside, mode)
            else:
                self._skipped.add(relative, "no file, directory or link")
        except OSError as error:
            self._skipped.add(relative, error.strerror or str(error))
        except UserError as error:
            if error.code == "no-space":
                raise
            self._skipped.add(relative, error.message)
        return False

    def _file(self, at: int, name: str, inside: str, mode: int) -> None:
        fd = fs.open_beneath(at, name, os.O_RDONLY)
        try:
            self._files.write(inside, mode & 0o777, _chunks(fd))
        finally:
            os.close(fd)

    def _link(self, inside: str, link: str) -> None:
        """Where it leads is the box's own business: it is followed in there."""
        try:
            self._files.symlink(inside, link)
        except PaddockError as error:
            if error.code != "exists":
                raise
            self._files.remove(inside)
            self._files.symlink(inside, link)


def _chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, FRAME_DATA_BYTES):
        yield chunk

"""The build directory of a Dockerfile: what COPY and ADD take of it, as the archive of a layer.

No link is followed, neither on the way to a source nor in it: links are copied as links, and a source that is one is
refused. So nothing outside of the directory is read, whatever it holds, and what is made is unpacked like any archive.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock.images import pack
from paddock.images.dockerlines import wrong
from paddock.images.names import WHITEOUT
from paddock.images.pack import Dress
from paddock.images.streams import is_packed
from paddock.limits import ARCHIVE_DEPTH_MAX
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.images.dockerignore import Dockerignore
    from paddock.images.instructions import Copy
    from paddock.images.pack import Sink

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WILD: Final = frozenset("*?[")
_TAR_MAGIC: Final = (257, b"ustar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a COPY goes in the root that is built."""

    path: str  # without links in it, and without / around it
    is_directory: bool  # it is one there, or the instruction says so
    parents: tuple[tuple[str, Dress], ...] = ()  # on the way, as they are there: a layer must not change them
    owner: tuple[int, int] = (0, 0)
    mode: int | None = None  # by --chmod


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    path: str  # below the build directory, which is ""
    status: os.stat_result


class Context:
    def __init__(self, root: int, ignore: Dockerignore) -> None:
        """`root` is an open directory, the caller's."""
        self._root = root
        self._ignore = ignore

    def __repr__(self) -> str:
        return f"<Context {self._ignore!r}>"

    def write(self, copy: Copy, target: Target, sink: Sink) -> None:
        """The layer that a COPY makes, as an uncompressed archive."""
        self._write(copy, target, sink, timeless=False)
        pack.write_end(sink)

    def digest(self, copy: Copy, target: Target) -> str:
        """Changes with what is copied and how, not with times: the same files checked out again are the same."""
        hashed = _Sum()
        self._write(copy, target, hashed, timeless=True)
        return hashed.sum.hexdigest()

    def _write(self, copy: Copy, target: Target, sink: Sink, *, timeless: bool) -> None:
        for path, dress in target.parents:
            pack.put_directory(sink, path, replace(dress, mtime=0) if timeless else dress)
        found = [source for word in copy.sources for source in self._sources(copy, word)]
        if len(found) + len(copy.heredocs) > 1 and not target.is_directory:
            raise wrong(copy.line, f"several sources need a directory, and {neutralise(copy.target)!r} is none")
        for source in found:
            for entry, name in self._placed(copy, source, target):
                self._put(copy, entry, _safe(copy, name), target, sink, timeless=timeless)
        for heredoc in copy.heredocs:
            name = f"{target.path}/{heredoc.name}".lstrip("/") if target.is_directory else target.path
            dress = Dress(mode=0o644 if target.mode is None else target.mode, owner=target.owner)
            pack.put_text(sink, _safe(copy, name), heredoc.text.encode("utf-8", "surrogateescape"), dress)

    # -- what is meant -------------------------------------------------------------------------------------------------

    def _sources(self, copy: Copy, word: str) -> list[_Source]:
        names = [name for name in word.split("/") if name not in {"", "."}]
        if ".." in names:
            raise wrong(copy.line, f"{neutralise(word)!r} leads out of the build directory")
        paths = [""]
        for name in names:
            paths = [found for path in paths for found in self._step(copy, path, name)]
        found = [_Source(path=path, status=self._status(path)) for path in paths if not self._leaves_out(path)]
        if not found:
            hint = ".dockerignore leaves it out" if paths else "sources are found below the build directory"
            raise wrong(copy.line, f"there is no {neutralise(word)!r} to copy", hint)
        return found

    def _step(self, copy: Copy, path: str, name: str) -> list[str]:
        try:
            fd = self._open(path, _DIRECTORY)
        except OSError as error:
            raise wrong(copy.line, f"{neutralise(path)!r} is no directory of its own: {error.strerror}") from error
        try:
            if not _WILD & set(name):
                return [f"{path}/{name}".lstrip("/")] if _is_there(fd, name) else []
            pattern = name.replace("[^", "[!")
            there = sorted(os.listdir(fd), key=os.fsencode)
            return [f"{path}/{one}".lstrip("/") for one in there if fnmatch.fnmatchcase(one, pattern)]
        finally:
            os.close(fd)

    def _leaves_out(self, path: str) -> bool:
        return bool(path) and self._ignore.ignores(path) and not self._ignore.takes_back

    def _status(self, path: str) -> os.stat_result:
        fd = self._open(os.path.dirname(path), _DIRECTORY)
        try:
            return os.stat(os.path.basename(path) or ".", dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)

    def _open(self, path: str, flags: int) -> int:
        """Beneath the build directory, with no link on the way."""
        fd = os.dup(self._root)
        names = [name for name in path.split("/") if name]
        for number, name in enumerate(names):
            try:
                step = os.open(name, flags if number == len(names) - 1 else _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = step
        return fd

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _placed(self, copy: Copy, source: _Source, target: Target) -> Iterator[tuple[_Source, str]]:
        """Of a directory what is in it, of a file itself; each with its name in the layer."""
        if stat.S_ISDIR(source.status.st_mode):
            if not target.is_directory:
                target = replace(target, is_directory=True)
            if target.path:
                yield source, target.path
            for entry in self._below(copy, source.path, 0):
                yield entry, f"{target.path}/{entry.path[len(source.path) :].lstrip('/')}".lstrip("/")
            return
        if not stat.S_ISREG(source.status.st_mode):
            what = "a link, and links are not followed" if stat.S_ISLNK(source.status.st_mode) else "no file"
            raise wrong(copy.line, f"{neutralise(source.path)!r} is {what}")
        base = os.path.basename(source.path)
        yield source, f"{target.path}/{base}".lstrip("/") if target.is_directory else target.path

    def _below(self, copy: Copy, path: str, depth: int) -> Iterator[_Source]:
        if depth >= ARCHIVE_DEPTH_MAX:
            raise wrong(copy.line, f"directories are nested too deep at {neutralise(path)!r}")
        fd = self._open(path, _DIRECTORY)
        try:
            names = sorted(os.listdir(fd), key=os.fsencode)
            rows = [(name, os.stat(name, dir_fd=fd, follow_symlinks=False)) for name in names]
        finally:
            os.close(fd)
        for name, status in rows:
            below = f"{path}/{name}".lstrip("/")
            is_directory = stat.S_ISDIR(status.st_mode)
            if not self._ignore.ignores(below):
                yield _Source(path=below, status=status)
            elif not (is_directory and self._ignore.takes_back):
                continue
            if is_directory:
                yield from self._below(copy, below, depth + 1)

    def _put(self, copy: Copy, entry: _Source, name: str, target: Target, sink: Sink, *, timeless: bool) -> None:
        status = entry.status
        mode = stat.S_IMODE(status.st_mode) & 0o777 if target.mode is None else target.mode
        dress = Dress(mode=mode, owner=target.owner, mtime=0 if timeless else max(int(status.st_mtime), 0))
        if stat.S_ISDIR(status.st_mode):
            if name not in {path for path, _ in target.parents}:
                pack.put_directory(sink, name, dress)
        elif stat.S_ISLNK(status.st_mode):
            pack.put_link(sink, name, self._link(entry.path), dress)
        elif stat.S_ISREG(status.st_mode):
            fd = self._open(entry.path, _FILE)
            try:
                _require_plain(copy, fd, entry.path)
                pack.put_file(sink, name, fd, dress)
            finally:
                os.close(fd)

    def _link(self, path: str) -> str:
        fd = self._open(os.path.dirname(path), _DIRECTORY)
        try:
            return os.readlink(os.path.basename(path), dir_fd=fd)
        finally:
            os.close(fd)


class _Sum:
    def __init__(self) -> None:
        self.sum = hashlib.sha256()

    def write(self, data: bytes, /) -> None:
        self.sum.update(data)


def _is_there(fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _safe(copy: Copy, name: str) -> str:
    if any(part.startswith(WHITEOUT) for part in name.split("/")):
        raise wrong(copy.line, f"{neutralise(name)!r} has a name that means a removed file in an image")
    return name


def _require_plain(copy: Copy, fd: int, path: str) -> None:
    """It was a file a moment ago; and ADD would unpack some."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise wrong(copy.line, f"{neutralise(path)!r} changed while it was read")
    at, magic = _TAR_MAGIC
    if copy.is_add and (is_packed(os.pread(fd, 8, 0)) or os.pread(fd, len(magic), at) == magic):
        hint = "COPY it, and unpack it by RUN"
        raise wrong(copy.line, f"ADD would unpack {neutralise(path)!r}, which is not supported", hint)

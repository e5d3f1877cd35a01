"""What COPY and ADD take of the build directory, or of another stage, as the archive of a layer.

No link is followed, neither on the way to a source nor in it: links are copied as links, and a source that is one is
refused. So nothing outside of the directory is read, whatever it holds, and what is made is unpacked like any archive.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock.images import pack
from paddock.images.dockerlines import wrong
from paddock.images.names import WHITEOUT
from paddock.images.pack import Dress
from paddock.images.streams import is_packed
from paddock.limits import ARCHIVE_DEPTH_MAX, BUILD_COPY_BYTES, BUILD_COPY_ENTRIES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.errors import UserError
    from paddock.images.dockerignore import Dockerignore
    from paddock.images.instructions import Copy
    from paddock.images.pack import Sink
    from paddock.images.sources import Files

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


_ANYWHERE: Final = Target(path="", is_directory=True)


class Context:
    """`proceed` is called now and then, and may raise."""

    def __init__(self, files: Files, ignore: Dockerignore, proceed: Callable[[], None] = lambda: None) -> None:
        self._files = files
        self._ignore = ignore
        self._proceed = proceed
        self._looked = 0  # names that were looked at, for one instruction
        self._put_there: set[str] = set()  # directories of the archive that is being written

    def __repr__(self) -> str:
        return f"<Context {self._ignore!r}>"

    def write(self, copy: Copy, target: Target, sink: Sink) -> str:
        """The layer that a COPY makes, as an uncompressed archive; the digest of what went into it."""
        self._put_there = {path for path, _ in target.parents}
        for path, dress in target.parents:
            pack.put_directory(sink, path, dress)
        digest = self._walk(copy, target, sink)
        pack.write_end(sink)
        return digest

    def digest(self, copy: Copy) -> str:
        """Changes with what is copied and how, not with times: the same files checked out again are the same.

        As bounded as what it is the sum of.
        """
        self._put_there = set()
        return self._walk(copy, _ANYWHERE, _Nowhere())

    def is_archive(self, copy: Copy) -> bool:
        """An ADD of one archive unpacks it."""
        with self._archive(copy) as found:
            return found is not None

    def write_archive(self, copy: Copy, sink: Sink) -> str:
        """That archive as it is, and the digest that a COPY of it has."""
        with self._archive(copy) as found:
            if found is None:
                raise wrong(copy.line, f"{neutralise(copy.sources[0])!r} changed while it was read")
            source, fd = found
            total = _Sum(copy, self._proceed)
            size = _plain_size(replace(copy, is_add=False), fd, source.path)
            total.entry(source, source, size)
            pack.copy(fd, size, source.path, sink, total)
            return total.digest()

    @contextlib.contextmanager
    def _archive(self, copy: Copy) -> Iterator[tuple[_Source, int] | None]:
        if not copy.is_add or copy.heredocs or len(copy.sources) != 1:
            yield None
            return
        self._looked = 0
        found = self._sources(copy, copy.sources[0])
        if len(found) != 1 or not stat.S_ISREG(found[0].status.st_mode):
            yield None
            return
        fd = self._files.open(found[0].path)
        try:
            yield (found[0], fd) if _is_archive(fd) else None
        finally:
            os.close(fd)

    def _walk(self, copy: Copy, target: Target, sink: Sink) -> str:
        """The sum is of the very bytes that go into the archive: the directory may change while it is read."""
        self._looked = 0
        total = _Sum(copy, self._proceed)
        found = [source for word in copy.sources for source in self._sources(copy, word)]
        if len(found) + len(copy.heredocs) > 1 and not target.is_directory:
            raise wrong(copy.line, f"several sources need a directory, and {neutralise(copy.target)!r} is none")
        for source in found:
            for entry, name in self._placed(copy, source, target):
                self._put(copy, source, entry, _safe(copy, name), target, sink, total)
        for heredoc in copy.heredocs:
            name = f"{target.path}/{heredoc.name}".lstrip("/") if target.is_directory else target.path
            dress = Dress(mode=0o644 if target.mode is None else target.mode, owner=target.owner)
            pack.put_text(sink, _safe(copy, name), heredoc.text.encode("utf-8", "surrogateescape"), dress)
        return total.digest()

    # -- what is meant -------------------------------------------------------------------------------------------------

    def _sources(self, copy: Copy, word: str) -> list[_Source]:
        names = [name for name in word.split("/") if name not in {"", "."}]
        if ".." in names:
            raise wrong(copy.line, f"{neutralise(word)!r} leads out of the build directory")
        paths = [""]
        for name in names:
            paths = [found for path in paths for found in self._step(copy, path, name)]
        paths = [self._files.settled(path) for path in paths]
        found = [self._source(path) for path in paths if not self._leaves_out(path)]
        if not found:
            hint = ".dockerignore leaves it out" if paths else "sources are found below the build directory"
            raise wrong(copy.line, f"there is no {neutralise(word)!r} to copy", hint)
        return found

    def _source(self, path: str) -> _Source:
        status = self._files.status(path)
        if status is None:
            raise FileNotFoundError(path)
        return _Source(path=path, status=status)

    def _step(self, copy: Copy, path: str, name: str) -> list[str]:
        path = self._files.settled(path)
        self._look(copy)
        try:
            if not _WILD & set(name):
                there = [name] if self._files.status(f"{path}/{name}".lstrip("/")) is not None else []
            else:
                pattern = name.replace("[^", "[!")
                names = self._names(path)
                self._look(copy, len(names))
                there = [one for one in names if fnmatch.fnmatchcase(one, pattern)]
        except OSError as error:
            raise wrong(copy.line, f"{neutralise(path)!r} is no directory of its own: {error.strerror}") from error
        return [f"{path}/{one}".lstrip("/") for one in there]

    def _names(self, path: str) -> list[str]:
        return sorted(self._files.names(path), key=os.fsencode)

    def _look(self, copy: Copy, names: int = 1) -> None:
        """Also where nothing comes of it: what is left out, or does not match, takes its time, too."""
        self._proceed()
        self._looked += names
        if self._looked > 4 * BUILD_COPY_ENTRIES:
            raise _too_many(copy)

    def _leaves_out(self, path: str) -> bool:
        return bool(path) and self._ignore.ignores(path) and not self._ignore.takes_back

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _placed(self, copy: Copy, source: _Source, target: Target) -> Iterator[tuple[_Source, str]]:
        """Of a directory what is in it, of a file itself; each with its name in the layer."""
        if stat.S_ISDIR(source.status.st_mode):
            if not target.is_directory:
                target = replace(target, is_directory=True)
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
        for name in self._names(path):
            self._look(copy)
            below = f"{path}/{name}".lstrip("/")
            status = self._files.status(below)
            if status is None:
                continue  # it went while we looked
            is_directory = stat.S_ISDIR(status.st_mode)
            if not self._ignore.ignores(below):
                yield _Source(path=below, status=status)
            elif not (is_directory and self._ignore.takes_back):
                continue
            if is_directory:
                yield from self._below(copy, below, depth + 1)

    def _put(
        self, copy: Copy, source: _Source, entry: _Source, name: str, target: Target, sink: Sink, total: _Sum
    ) -> None:
        status = entry.status
        mode = _mode(entry) if target.mode is None else target.mode
        dress = Dress(mode=mode, owner=target.owner, mtime=max(int(status.st_mtime), 0))
        if stat.S_ISDIR(status.st_mode):
            total.entry(source, entry)
            if name and name not in self._put_there:
                self._put_there.add(name)
                pack.put_directory(sink, name, dress)
        elif stat.S_ISLNK(status.st_mode):
            link = self._files.link(entry.path)
            total.entry(source, entry, link=link)
            pack.put_link(sink, name, link, dress)
        elif stat.S_ISREG(status.st_mode):
            fd = self._files.open(entry.path)
            try:
                size = _plain_size(copy, fd, entry.path)
                total.entry(source, entry, size)
                pack.put_header(sink, name, size, dress)
                pack.copy(fd, size, entry.path, sink, total)
                pack.put_padding(sink, size)
            finally:
                os.close(fd)


class _Nowhere:
    def write(self, data: bytes, /) -> None:
        pass


class _Sum:
    """Of each entry what it is, where in its source, and its content."""

    def __init__(self, copy: Copy, proceed: Callable[[], None]) -> None:
        self._sum = hashlib.sha256()
        self._copy = copy
        self._proceed = proceed
        self._bytes = self._entries = 0

    def entry(self, source: _Source, entry: _Source, size: int = -1, link: str = "") -> None:
        self._entries += 1
        if self._entries > BUILD_COPY_ENTRIES:
            raise _too_many(self._copy)
        name = "" if stat.S_ISDIR(source.status.st_mode) else os.path.basename(source.path)
        where = entry.path[len(source.path) :]
        words = json.dumps([name, where, stat.S_IFMT(entry.status.st_mode), _mode(entry), size, link])
        self.write(f"{len(words)} {words}".encode())  # ASCII, whatever bytes a name has

    def write(self, data: bytes, /) -> None:
        self._bytes += len(data)
        if self._bytes > BUILD_COPY_BYTES:
            raise _too_many(self._copy)
        self._proceed()
        self._sum.update(data)

    def digest(self) -> str:
        return self._sum.hexdigest()


def _too_many(copy: Copy) -> UserError:
    hint = "name what is needed, or leave the rest out by .dockerignore"
    return wrong(copy.line, "it takes too many files, or too large ones", hint)


def _mode(entry: _Source) -> int:
    return stat.S_IMODE(entry.status.st_mode) & 0o777


def _safe(copy: Copy, name: str) -> str:
    if any(part.startswith(WHITEOUT) for part in name.split("/")):
        raise wrong(copy.line, f"{neutralise(name)!r} has a name that means a removed file in an image")
    return name


def _plain_size(copy: Copy, fd: int, path: str) -> int:
    """It was a file a moment ago, and may be one large hole; and ADD would unpack some."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise wrong(copy.line, f"{neutralise(path)!r} changed while it was read")
    if status.st_size > BUILD_COPY_BYTES:
        raise wrong(
            copy.line, f"{neutralise(path)!r} has {status.st_size} bytes, at most {BUILD_COPY_BYTES} are copied"
        )
    if copy.is_add and _is_archive(fd):
        hint = "give it an ADD of its own, or COPY it"
        raise wrong(copy.line, f"ADD would unpack {neutralise(path)!r}, which it does with one archive alone", hint)
    return status.st_size


def _is_archive(fd: int) -> bool:
    at, magic = _TAR_MAGIC
    return is_packed(os.pread(fd, 8, 0)) or os.pread(fd, len(magic), at) == magic

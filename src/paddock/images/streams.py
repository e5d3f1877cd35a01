"""Byte streams of archives: parts of files, digests taken on the way, and compression undone within bounds.

What is hashed is what is read on: no file is read twice, so one that changes meanwhile cannot pass its check as one
thing and be unpacked as another.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from paddock import proc
from paddock.errors import Unavailable
from paddock.images.tar import refused
from paddock.limits import DISK_FLOOR_BYTES, IMAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_BYTES: Final = 1 << 16
_GZIP, _ZSTD, _XZ, _BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"
MAGIC_BYTES: Final = 6
_ZSTD_END_S: Final = 10.0


class Source(Protocol):
    def read(self, size: int, /) -> bytes:
        """From one to `size` bytes; none at the end."""


class Part:
    """Bytes `start` to `start + size` of an open file, which stays the caller's; without a size, to its end."""

    def __init__(self, fd: int, start: int = 0, size: int | None = None) -> None:
        self._fd = fd
        self._at = start
        self._end = None if size is None else start + size

    def read(self, size: int, /) -> bytes:
        if self._end is not None:
            size = max(0, min(size, self._end - self._at))
        data = os.pread(self._fd, size, self._at) if size else b""
        self._at += len(data)
        return data

    def skip(self, size: int, /) -> None:
        """Pass over bytes; whether there are as many shows when the next are read."""
        self._at += size


class Hashed:
    """Passes on what it reads and keeps its sum."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sum = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._sum.update(data)
        self.size += len(data)
        return data

    def drain(self) -> None:
        """Read what is left, so that the digest is that of the whole."""
        while self.read(_CHUNK_BYTES):
            pass

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum.hexdigest()}"


class _Peeked:
    def __init__(self, source: Source) -> None:
        self._source = source
        self.head = b""
        while len(self.head) < MAGIC_BYTES and (data := source.read(MAGIC_BYTES - len(self.head))):
            self.head += data
        self._rest = self.head

    def read(self, size: int, /) -> bytes:
        if self._rest:
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        return self._source.read(size)


class _Gunzipped:
    """All members of a gzip file: some tools make one per file of a layer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._unzip = zlib.decompressobj(31)
        self._input = b""

    def read(self, size: int, /) -> bytes:
        while True:
            if self._unzip.eof:
                self._input = self._unzip.unused_data or self._source.read(_CHUNK_BYTES)
                if not self._input:
                    return b""
                self._unzip = zlib.decompressobj(31)
            if not self._input:
                self._input = self._source.read(_CHUNK_BYTES)
                if not self._input:
                    raise refused("its compressed data ends too early")
            try:
                data = self._unzip.decompress(self._input, size)
            except zlib.error:
                raise refused("its compressed data is damaged") from None
            self._input = self._unzip.unconsumed_tail
            if data:
                return data


class Pipe:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, size: int, /) -> bytes:
        return os.read(self._fd, size)


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return head.startswith((_GZIP, _ZSTD, _XZ, _BZIP2))


@contextlib.contextmanager
def plain(source: Source, spool_dir: str) -> Iterator[Source]:
    """The stream without its compression, told by its first bytes: gzip, zstd (if its program is here) or none.

    Whoever reads to the end knows that the compressed form was whole; leaving earlier says nothing about the rest.
    """
    peeked = _Peeked(source)
    if peeked.head.startswith(_GZIP):
        yield _Gunzipped(peeked)
    elif peeked.head.startswith(_ZSTD):
        with _unzstd(peeked, spool_dir) as unpacked:
            yield unpacked
    elif peeked.head.startswith((_XZ, _BZIP2)):
        raise refused("it is compressed with xz or bzip2; gzip, zstd and none are taken")
    else:
        yield peeked


def room(directory: str) -> int:
    """The bytes that a file of images may take there: a bomb must not take what the host needs itself."""
    status = os.statvfs(directory)
    return min(max(0, status.f_bavail * status.f_frsize - DISK_FLOOR_BYTES), IMAGE_BYTES)


def spool(source: Source, directory: str, bytes_max: int) -> int:
    """A nameless file in `directory` with all of the stream; the descriptor is the caller's."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        while data := source.read(_CHUNK_BYTES):
            size += len(data)
            if size > bytes_max:
                raise refused("it would take too much space")
            write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


@contextlib.contextmanager
def _unzstd(source: Source, spool_dir: str) -> Iterator[Source]:
    """The standard library has no zstd before 3.14. The program reads a file of ours and writes to a pipe, no more."""
    program = shutil.which("zstd", path="/usr/bin:/bin:/usr/local/bin")
    if program is None:
        hint = "install the package zstd, or make the image with gzip"
        raise Unavailable("an archive is compressed with zstd, and there is no such program", hint=hint, code="no-zstd")
    with contextlib.ExitStack() as stack:
        packed = spool(source, spool_dir, room(spool_dir))
        stack.callback(os.close, packed)
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        try:
            # --memory: a frame may ask for a window of gigabytes.
            argv = [program, "-dcq", "--memory=128MB"]
            child = proc.spawn_child(argv, env={"PATH": "/usr/bin:/bin"}, pass_fds={0: packed, 1: writer})
        finally:
            os.close(writer)
        stack.enter_context(child)
        yield _Checked(reader, child)


class _Checked(Pipe):
    """The end of the pipe is the end of the data only if the program says so."""

    def __init__(self, fd: int, child: proc.Child) -> None:
        super().__init__(fd)
        self._child = child

    def read(self, size: int, /) -> bytes:
        data = super().read(size)
        if not data and self._child.wait(_ZSTD_END_S) != 0:
            raise refused("its compressed data is damaged")
        return data

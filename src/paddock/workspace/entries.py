"""What lies at a place of a tree: values, and the reads that make them without following or blocking on anything."""

from __future__ import annotations

import enum
import errno
import hashlib
import os
import stat
from dataclasses import dataclass, replace

from paddock.fs import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = 1 << 18
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Entry(enum.Enum):
    NOTHING = "nothing"
    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    OTHER = "other"  # a FIFO, a socket or a device


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An entry as it was when it was looked at. `digest` is empty until someone read the content."""

    entry: Entry
    mode: int = 0  # permission bits, with set-id and sticky
    size: int = 0
    target: str = ""  # of a symbolic link
    digest: str = ""
    inode: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    def same_content(self, other: Seen) -> bool:
        """Whether both are the same kind of entry with the same bytes; modes and times do not count."""
        if self.entry is not other.entry:
            return False
        return (self.size, self.digest, self.target) == (other.size, other.digest, other.target)

    def untouched(self, other: Seen) -> bool:
        """Whether nothing was done to the entry in between, not even a change of its mode."""
        return replace(self, digest="") == replace(other, digest="")


NOTHING = Seen(entry=Entry.NOTHING)


def kind_of(mode: int) -> Entry:
    match stat.S_IFMT(mode):
        case stat.S_IFREG:
            return Entry.FILE
        case stat.S_IFDIR:
            return Entry.DIR
        case stat.S_IFLNK:
            return Entry.SYMLINK
        case _:
            return Entry.OTHER


def seen(at: int, name: str) -> Seen:
    """What `name` is in the directory `at`; NOTHING if it is missing."""
    try:
        status = os.lstat(name) if at < 0 else os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return NOTHING
    target = ""
    if stat.S_ISLNK(status.st_mode):
        try:
            target = os.readlink(name, dir_fd=at)
        except OSError as error:  # swapped for something else this moment: look again
            if error.errno in {errno.EINVAL, errno.ENOENT}:
                return seen(at, name)
            raise
    return from_status(status, target)


def from_status(status: os.stat_result, target: str = "") -> Seen:
    entry = kind_of(status.st_mode)
    return Seen(
        entry=entry,
        mode=stat.S_IMODE(status.st_mode),
        size=status.st_size if entry is Entry.FILE else 0,
        target=target,
        inode=status.st_ino,
        mtime_ns=0 if entry is Entry.DIR else status.st_mtime_ns,  # a directory's follow its names, which are entries
        ctime_ns=0 if entry is Entry.DIR else status.st_ctime_ns,
    )


def look(root: int, path: str) -> Seen:
    """What lies at `path` below `root`; NOTHING also where a link is on the way."""
    directory, _, name = path.rpartition("/")
    try:
        at = open_directory(root, directory)
    except OSError as error:
        if error.errno in _GONE:
            return NOTHING
        raise
    try:
        return seen(at, name)
    finally:
        os.close(at)


def look_closely(root: int, path: str) -> Seen:
    """As look, with the digest of a regular file, from one descriptor: what is written meanwhile shows in the times."""
    found = look(root, path)
    if found.entry is not Entry.FILE:
        return found
    try:
        fd = open_beneath(root, path, os.O_RDONLY, one_mount=True)
    except OSError as error:
        if error.errno in _GONE or error.errno == errno.ENXIO:
            return look(root, path)
        raise
    try:
        text = digest(fd)
        return replace(from_status(os.fstat(fd)), digest=text)
    finally:
        os.close(fd)


def open_directory(root: int, path: str) -> int:
    return open_beneath(root, path or ".", os.O_RDONLY | os.O_DIRECTORY, one_mount=True)


def open_file(root: int, path: str) -> int:
    """A descriptor of a regular file for reading; OSError for everything else."""
    fd = open_beneath(root, path, os.O_RDONLY, one_mount=True)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def digest(fd: int) -> str:
    """SHA-256 of a file from its start, whatever the descriptor's position; OSError if it grows meanwhile."""
    total = hashlib.sha256()
    for chunk in chunks(fd):
        total.update(chunk)
    return total.hexdigest()


def chunks(fd: int) -> Iterator[bytes]:
    """The bytes of a file, no more than it has now: a box can make one longer for ever, and faster than it is read."""
    most = os.fstat(fd).st_size
    at = 0
    while chunk := os.pread(fd, CHUNK_BYTES, at):
        at += len(chunk)
        if at > most:
            raise OSError(errno.ESTALE, "it was growing while it was read")
        yield chunk


def read_file(root: int, path: str, most_bytes: int) -> bytes | None:
    """The content of a regular file, or None if it is larger than `most_bytes`."""
    fd = open_file(root, path)
    try:
        parts = []
        left = most_bytes + 1
        while left > 0 and (chunk := os.read(fd, min(left, CHUNK_BYTES))):
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts) if left > 0 else None
    finally:
        os.close(fd)


def same_bytes(one: int, other: int) -> bool:
    at = 0
    while True:
        left, right = os.pread(one, CHUNK_BYTES, at), os.pread(other, CHUNK_BYTES, at)
        if left != right:
            return False
        if not left:
            return True
        at += len(left)

"""Walk the tree of a layer in one order on every machine, and take its sum.

Layers do not change while they are walked, but what is in a frozen one was written by an agent: links are not
followed, and nothing but regular files is opened.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import UserError
from paddock.images import marks
from paddock.limits import ARCHIVE_DEPTH_MAX, ARCHIVE_ENTRIES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file, link or directory; its descriptors are good until the next one is asked for."""

    path: str  # below the root, which itself is ""
    at: int  # the directory around it
    name: str  # in that directory; "." for the root
    status: os.stat_result

    def open(self) -> int:
        """A descriptor of a file or directory, the caller's to close."""
        return os.open(self.name, fs.LISTABLE if stat.S_ISDIR(self.status.st_mode) else _FILE, dir_fd=self.at)

    def link(self) -> str:
        return os.readlink(self.name, dir_fd=self.at)


def entries(root: int) -> Iterator[Entry]:
    """Everything in a tree: a directory before what is in it, names in the order of their bytes."""
    yield Entry(path="", at=root, name=".", status=os.fstat(root))
    levels: list[tuple[int, str, Iterator[str]]] = [(root, "", _names(root))]
    try:
        while levels:
            at, above, names = levels[-1]
            name = next(names, None)
            if name is None:
                levels.pop()
                if at != root:
                    os.close(at)
                continue
            path = f"{above}/{name}" if above else name
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            yield Entry(path=path, at=at, name=name, status=status)
            if stat.S_ISDIR(status.st_mode):
                if len(levels) >= ARCHIVE_DEPTH_MAX:
                    raise UserError(f"directories are nested too deep at {neutralise(path)!r}", code="too-deep")
                below = os.open(name, fs.LISTABLE, dir_fd=at)
                levels.append((below, path, _names(below)))
    finally:
        for at, _, _ in levels:
            if at != root:
                os.close(at)


def _names(fd: int) -> Iterator[str]:
    with os.scandir(fd) as entries:
        found = [entry.name for entry in itertools.islice(entries, ARCHIVE_ENTRIES + 1)]
    if len(found) > ARCHIVE_ENTRIES:
        raise UserError(f"a directory holds more than {ARCHIVE_ENTRIES} files", code="too-large")
    return iter(sorted(found, key=os.fsencode))


def digest(root: int) -> str:
    """A sum over all that a tree means to a box: names, content, owners, permissions, times and attributes."""
    total = hashlib.sha256()
    first: dict[int, str] = {}  # names of files with several, by inode
    for entry in entries(root):
        for field in _fields(entry, first):
            total.update(b"%d:" % len(field))
            total.update(field)
    return f"sha256:{total.hexdigest()}"


def _fields(entry: Entry, first: dict[int, str]) -> Iterator[bytes]:
    status = entry.status
    yield os.fsencode(entry.path)
    yield b"%o %d %d %d" % (status.st_mode, status.st_uid, status.st_gid, int(status.st_mtime))
    if stat.S_ISLNK(status.st_mode):
        yield os.fsencode(entry.link())
    elif stat.S_ISDIR(status.st_mode):
        yield from _attributes(entry)
    elif not stat.S_ISREG(status.st_mode):
        yield b"%d" % status.st_rdev
    elif entry.status.st_nlink > 1 and first.setdefault(status.st_ino, entry.path) != entry.path:
        yield os.fsencode(first[status.st_ino])
    else:
        yield from _attributes(entry)
        yield _content(entry)


def _attributes(entry: Entry) -> Iterator[bytes]:
    fd = entry.open()
    try:
        for name, value in sorted(attributes(fd).items()):
            yield os.fsencode(name)
            yield value
        yield b"opaque" if marks.is_opaque(fd) else b""
    finally:
        os.close(fd)


def attributes(fd: int) -> dict[str, bytes]:
    """The extended attributes that belong to a file of an image: no marks, no labels of the host."""
    names = [name for name in os.listxattr(fd) if name.startswith("user.") or name == "security.capability"]
    return {name: os.getxattr(fd, name) for name in names if not name.startswith(marks.PREFIXES)}


def _content(entry: Entry) -> bytes:
    total = hashlib.sha256()
    fd = entry.open()
    try:
        while data := os.read(fd, _CHUNK_BYTES):
            total.update(data)
    finally:
        os.close(fd)
    return total.digest()

"""Unpack one layer, as hostile input, into a directory that nobody sees yet.

An error anywhere means that the layer is refused whole: the caller drops the directory. Nothing is looked up by a
path: each entry is made in its parent's descriptor, which was opened beneath the root without following links, and
only where nothing is (O_EXCL), so a second entry of one name, a name that differs only in case on a file system that
ignores it, and a file in the place of a directory all fail. Symbolic links are kept as they are written, wherever they
point: a box resolves them in its own root, and the host never follows them.

Entries that hide others (`.wh.`) apply to the layers below, whatever the order (OCI image spec, layer.md), so they
are put last. Devices below dev/ and FIFOs are left out: a box has its own /dev. Other devices are refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import Unavailable
from paddock.images import marks
from paddock.images.names import Place, place_of, place_of_target
from paddock.images.streams import write_all
from paddock.images.tar import Kind, Member, Reader, refused
from paddock.limits import (
    ARCHIVE_BYTES,
    ARCHIVE_DIRECTORY_BYTES,
    ARCHIVE_ENTRIES,
    ARCHIVE_TARGET_BYTES,
    DISK_FLOOR_BYTES,
    FILE_BYTES,
    FILES_FLOOR_ENTRIES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.images.ownership import Ownership
    from paddock.images.streams import Source

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY
_TIME_MAX: Final = 1 << 33  # the year 2242; file systems differ beyond
_CHUNK_BYTES: Final = 1 << 20
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    entries: int
    size_bytes: int  # of the content of files and of attributes
    left_out: int  # devices below dev/, and FIFOs


@dataclass(frozen=True, slots=True)
class _Looks:
    """What a directory gets when all is in it: until then it must be open to us and its time would change."""

    mode: int
    owner: tuple[int, int]
    mtime: int
    xattrs: tuple[tuple[str, bytes], ...] = ()


def unpack(source: Source, root: int, ownership: Ownership) -> Unpacked:
    """Unpack an uncompressed layer into the empty directory `root`, or raise and leave what there is to the caller."""
    try:
        size, entries = _room(root)
        reader = Reader(source, entries_max=entries, bytes_max=size, entry_bytes=FILE_BYTES)
        return _Unpacker(root, ownership).run(reader)
    except OSError as error:
        if error.errno in _FULL:
            raise Unavailable(
                "no space left to unpack a layer", hint="free some space, then again", code="disk"
            ) from error
        raise Unavailable(f"a layer cannot be unpacked: {error.strerror}", code="unpack") from error


def _room(root: int) -> tuple[int, int]:
    """The bytes and entries that may be written: a bomb must not take what the host needs itself."""
    status = os.fstatvfs(root)
    size = max(0, min(ARCHIVE_BYTES, status.f_bavail * status.f_frsize - DISK_FLOOR_BYTES))
    if not status.f_files:  # btrfs makes inodes as it goes
        return size, ARCHIVE_ENTRIES
    return size, max(0, min(ARCHIVE_ENTRIES, status.f_favail - FILES_FLOOR_ENTRIES))


class _Unpacker:
    def __init__(self, root: int, ownership: Ownership) -> None:
        self._root = root
        self._ownership = ownership
        self._directories: dict[str, _Looks | None] = {"": None}  # None: implied by what is in it
        self._hidden: dict[str, _Looks | None] = {}  # in order; nothing is kept of them but the name
        self._opaque: dict[str, _Looks | None] = {}
        self._names_left = ARCHIVE_DIRECTORY_BYTES
        self._parent_path = ""
        self._parent = root
        self._entries = self._size = self._left_out = 0

    def run(self, reader: Reader) -> Unpacked:
        try:
            for member in reader:
                self._entries += 1
                self._size += member.held_bytes
                with _named(member.name):
                    self._add(member, place_of(member), reader)
            for path in self._opaque:
                with _named(path):
                    self._mark_opaque(path)
            for path in self._hidden:
                with _named(path):
                    self._hide(path)
            for path in reversed(self._directories):  # what is in a directory came after it
                self._finish(path)
        finally:
            self._leave()
        return Unpacked(entries=self._entries, size_bytes=self._size, left_out=self._left_out)

    def _add(self, member: Member, place: Place, reader: Reader) -> None:
        if place.is_opaque_mark:
            self._remember(self._opaque, place.parent, None)
        elif place.hidden:
            self._remember(self._hidden, f"{place.parent}/{place.hidden}".lstrip("/"), None)
        elif member.kind is Kind.DIRECTORY:
            self._directory(member, place)
        elif member.kind is Kind.FIFO:
            self._left_out += 1
        elif member.kind in {Kind.CHAR, Kind.BLOCK}:
            if place.parts[0] != "dev":
                raise refused(f"a {member.kind.value}", member.name)
            self._left_out += 1
        elif member.kind is Kind.FILE:
            self._file(member, place, reader)
        elif member.kind is Kind.SYMLINK:
            self._symlink(member, place)
        else:
            self._hardlink(member, place)

    # -- one entry -----------------------------------------------------------------------------------------------------

    def _file(self, member: Member, place: Place, reader: Reader) -> None:
        fd = os.open(place.name, _CREATE, 0o600, dir_fd=self._enter(place))
        try:
            while data := reader.read(_CHUNK_BYTES):
                write_all(fd, data)
            self._dress(fd, self._looks(member))
        finally:
            os.close(fd)

    def _symlink(self, member: Member, place: Place) -> None:
        if not 0 < len(os.fsencode(member.target)) <= ARCHIVE_TARGET_BYTES:
            raise refused("a symbolic link to nothing, or to too long a name", member.name)
        at = self._enter(place)
        os.symlink(member.target, place.name, dir_fd=at)
        owner = self._ownership.owner(member)
        if owner != (-1, -1):
            os.chown(place.name, *owner, dir_fd=at, follow_symlinks=False)
        _set_time(member.mtime, place.name, at)

    def _hardlink(self, member: Member, place: Place) -> None:
        target = place_of_target(member)
        with self._opened(target.parent) as there:
            try:
                # A descriptor of the very file that is looked at: it is linked by that, and not by its name again.
                file = fs.open_beneath(there, target.name, os.O_RDONLY | os.O_PATH)
            except FileNotFoundError:
                raise refused("a hard link to nothing that came before", member.name) from None
            try:
                _require_file(file, member)
                os.link(f"/proc/self/fd/{file}", place.name, dst_dir_fd=self._enter(place), follow_symlinks=True)
            finally:
                os.close(file)

    def _directory(self, member: Member, place: Place) -> None:
        looks = self._looks(member)
        known = self._directories.get(place.path)
        if known is not None:
            if (known.mode, known.owner) != (looks.mode, looks.owner):
                raise refused("a second entry of this name", member.name)
            return
        if place.path not in self._directories:
            os.mkdir(place.name, 0o700, dir_fd=self._enter(place))
        self._remember(self._directories, place.path, looks)

    # -- directories ---------------------------------------------------------------------------------------------------

    def _enter(self, place: Place) -> int:
        """A descriptor of the directory an entry belongs in, made if it is missing; ours until the next one."""
        if place.parent != self._parent_path:
            self._imply(place.parts[:-1])
            fd = fs.open_beneath(self._root, place.parent or ".", _DIRECTORY)
            self._leave()
            self._parent, self._parent_path = fd, place.parent
        return self._parent

    def _leave(self) -> None:
        if self._parent != self._root:
            os.close(self._parent)
        self._parent, self._parent_path = self._root, ""

    def _imply(self, parts: tuple[str, ...]) -> None:
        if "/".join(parts) in self._directories:
            return
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            if path in self._directories:
                continue
            with self._opened("/".join(parts[: count - 1])) as above:
                try:
                    os.mkdir(parts[count - 1], 0o700, dir_fd=above)
                except FileExistsError:  # and it is no directory of ours
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
            self._remember(self._directories, path, None)

    def _opened(self, path: str) -> contextlib.AbstractContextManager[int]:
        return fs.opened_beneath(self._root, path or ".", _DIRECTORY)

    def _remember(self, where: dict[str, _Looks | None], path: str, value: _Looks | None) -> None:
        if path not in where:
            self._names_left -= len(path) + 1
            if self._names_left < 0:
                raise refused("the names of its directories take too much memory")
        where[path] = value

    # -- marks and looks -----------------------------------------------------------------------------------------------

    def _mark_opaque(self, path: str) -> None:
        self._imply(tuple(path.split("/")) if path else ())
        with self._opened(path) as fd:
            marks.make_opaque(fd)

    def _hide(self, path: str) -> None:
        """A file of this layer hides what is below by being there; a directory would let it show through."""
        if path in self._directories:
            self._mark_opaque(path)
            return
        place = Place(parts=tuple(path.split("/")))
        with contextlib.suppress(FileExistsError):
            marks.hide(self._enter(place), place.name)

    def _finish(self, path: str) -> None:
        looks = self._directories[path] or _Looks(0o755, (-1, -1) if self._ownership.is_squashed else (0, 0), 0)
        with self._opened(path) as fd:
            self._dress(fd, looks)

    def _looks(self, member: Member) -> _Looks:
        xattrs = tuple(item for item in member.xattrs if self._keeps(item[0], member))
        return _Looks(self._ownership.mode(member), self._ownership.owner(member), member.mtime, xattrs)

    def _keeps(self, name: str, member: Member) -> bool:
        if name.startswith(marks.PREFIXES):
            raise refused("it forges a mark of the kernel", member.name)
        return name.startswith("user.") or (name == "security.capability" and not self._ownership.is_squashed)

    def _dress(self, fd: int, looks: _Looks) -> None:
        if looks.owner != (-1, -1):
            os.fchown(fd, *looks.owner)
        os.fchmod(fd, looks.mode)  # after the owner, whose change takes set-id bits away
        for name, value in looks.xattrs:
            os.setxattr(fd, name, value)
        _set_time(looks.mtime, fd)


def _require_file(fd: int, member: Member) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise refused("a hard link to something that is no file", member.name)


def _set_time(mtime: int, path: str | int, at: int | None = None) -> None:
    when = min(max(mtime, 0), _TIME_MAX)
    if at is None:
        os.utime(path, (when, when))
    else:
        os.utime(path, (when, when), dir_fd=at, follow_symlinks=False)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Say of which entry an error is, where it is the archive's fault."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.EEXIST:
                what = "a second entry of this name"
            case errno.ELOOP | errno.ENOTDIR | errno.ENXIO:
                what = "its way leads through something that is no directory"
            case errno.EINVAL | errno.ERANGE | errno.EMLINK:
                what = f"the file system does not take it: {error.strerror}"
            case _:
                raise
        raise refused(what, name) from None

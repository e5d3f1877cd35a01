"""Out of a box: its tree is written below one directory of the host, whatever the box says about it.

TRUST: names, modes and contents are the box's word. A name is used only if it is a plain path below the copied
directory, and each file is made through descriptors that follow no link, so nothing else can be written, even if the
box changes the target meanwhile. Set-id bits and owners are dropped. A link is made only if following it stays below.
"""

from __future__ import annotations

import errno
import os
import posixpath
from typing import TYPE_CHECKING

from paddock import fs, text
from paddock.cli import hostpaths
from paddock.errors import Unavailable, UserError
from paddock.limits import DISK_FLOOR_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.cli.boxfiles import BoxFiles
    from paddock.cli.copying import Skipped
    from paddock.client import Entry

_LOOK_BYTES = 64 * MIB  # how much is written between two looks at the free space
_OWNER_ALL = 0o700


def fetch(files: BoxFiles, source: str, target: str, trees: Sequence[str], skipped: Skipped) -> None:
    """Copy `source` of the box into the directory `target`, or as `target` if there is no such directory."""
    try:
        top = files.stat(source)
    except UserError as error:
        raise UserError(f"{source} in the box: {error.message}", hint="check the path", code=error.code) from error
    if top.kind not in {"file", "directory"}:
        raise UserError(f"{source} is no file and no directory", hint="copy one of these", code="not-a-file")
    place = hostpaths.resolve(target, trees)
    if os.path.isdir(place):
        parent, name = place, posixpath.basename(source)
    elif target.endswith("/"):
        raise UserError(f"there is no directory {target}", hint=f"`mkdir -p {target}` first", code="no-file")
    else:
        parent, name = os.path.split(place)
    if not name:
        raise UserError(f"{source!r} has no name to copy it under", hint="give the new name as DST", code="usage")
    try:
        root = hostpaths.open_resolved(parent, trees, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        hint = "give a directory that exists"
        raise UserError(f"cannot open {parent}: {error.strerror}", hint=hint, code="no-file") from error
    try:
        copy = _Copy(files, root, skipped)
        if top.kind == "file":
            copy.file(source, name, top.mode)
        else:
            copy.tree(source, name, top.mode)
    except OSError as error:
        hint = "check its permissions and the free space"
        raise UserError(f"cannot write {parent}/{name}: {error.strerror}", hint=hint, code="no-file") from error
    finally:
        os.close(root)


class _Copy:
    def __init__(self, files: BoxFiles, root: int, skipped: Skipped) -> None:
        self._files = files
        self._root = root
        self._skipped = skipped
        self._until_look = 0
        self._closed: list[tuple[str, int]] = []  # directories whose owner may not write in them

    def tree(self, source: str, name: str, mode: int) -> None:
        self._directory(name, mode)
        for entry in self._files.entries(source):
            if isinstance(entry, tuple):
                self._skipped.add(*entry)
                continue
            try:
                self._entry(entry, source, name)
            except OSError as error:
                self._skipped.add(entry.path, error.strerror or str(error))
            except UserError as error:  # the box refused this one
                self._skipped.add(entry.path, error.message)
        for place, closed_mode in reversed(self._closed):
            fd = fs.open_beneath(self._root, place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fchmod(fd, os.fstat(fd).st_mode & closed_mode)  # it was made as the umask wants
            finally:
                os.close(fd)

    def _entry(self, entry: Entry, source: str, name: str) -> None:
        relative = below(entry.path, source)
        if relative is None:
            self._skipped.add(entry.path, "not a path below the copied directory")
            return
        place = f"{name}/{relative}"
        match entry.kind:
            case "directory":
                self._directory(place, entry.mode)
            case "file":
                self.file(entry.path, place, entry.mode)
            case "symlink" if stays_below(relative, entry.link):
                self._link(place, entry.link)
            case "symlink":
                self._skipped.add(entry.path, "a link that leads out of the copied directory")
            case _:
                self._skipped.add(entry.path, "no file, directory or link")

    def file(self, path: str, place: str, mode: int) -> None:
        # The box first: what it refuses is not made.
        with self._files.read(path) as chunks, os.fdopen(self._create(place, mode & 0o777), "wb") as out:
            for chunk in chunks:
                self._leave_room(len(chunk))
                out.write(chunk)

    def _create(self, place: str, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            return fs.open_beneath(self._root, place, flags, mode)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        self._unlink(place)  # a link is replaced, not followed
        return fs.open_beneath(self._root, place, flags | os.O_EXCL, mode)

    def _directory(self, place: str, mode: int) -> None:
        at, name = self._parent(place)
        try:
            os.mkdir(name, mode & 0o777 | _OWNER_ALL, dir_fd=at)
        except FileExistsError:  # only a directory will do
            os.close(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
        else:
            if mode & _OWNER_ALL != _OWNER_ALL:
                self._closed.append((place, mode & 0o777))
        finally:
            os.close(at)

    def _link(self, place: str, link: str) -> None:
        at, name = self._parent(place)
        try:
            try:
                os.symlink(link, name, dir_fd=at)
            except FileExistsError:
                os.unlink(name, dir_fd=at)
                os.symlink(link, name, dir_fd=at)
        finally:
            os.close(at)

    def _unlink(self, place: str) -> None:
        at, name = self._parent(place)
        try:
            os.unlink(name, dir_fd=at)
        finally:
            os.close(at)

    def _parent(self, place: str) -> tuple[int, str]:
        parent, _, name = place.rpartition("/")
        return fs.open_beneath(self._root, parent or ".", os.O_RDONLY | os.O_DIRECTORY), name

    def _leave_room(self, n_bytes: int) -> None:
        """A box can send for ever; the host keeps what it needs to go on."""
        self._until_look -= n_bytes
        if self._until_look > 0:
            return
        self._until_look = _LOOK_BYTES
        values = os.fstatvfs(self._root)
        floor = min(DISK_FLOOR_BYTES, values.f_blocks * values.f_frsize // 20)
        if values.f_bavail * values.f_frsize < floor:
            message = f"the copy was stopped: less than {text.size(floor)} of the disk is left"
            raise Unavailable(message, hint="free some space", code="disk")


def below(path: str, top: str) -> str | None:
    """The part of a path below `top`, if it is made of nothing but names that a file can have."""
    prefix = top.rstrip("/") + "/"
    parts = path[len(prefix) :].split("/")
    if not path.startswith(prefix) or any(part in {"", ".", ".."} for part in parts) or not _is_name(path):
        return None
    return "/".join(parts)


def stays_below(relative: str, link: str) -> bool:
    """Whether following `link`, found at `relative`, cannot leave the directory that both lie in.

    `..` may only stand at the beginning: after a name it would be counted from wherever that name, itself a link,
    leads. At the beginning it is counted from the link's own directory, which is a real one.
    """
    parts = [part for part in link.split("/") if part not in {"", "."}]
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return _is_name(link) and not link.startswith("/") and ".." not in parts[ups:] and ups <= relative.count("/")


def _is_name(path: str) -> bool:
    """Whether the kernel could take it: no NUL, and no half of a surrogate pair, which JSON can hold."""
    try:
        return bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False

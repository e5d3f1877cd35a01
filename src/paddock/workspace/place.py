"""Put entries into a workspace that others write to at the same time, without losing a byte of theirs.

Everything happens in one directory, held by a descriptor that was opened beneath the workspace without following links,
under names that are looked up without following them. New content is made whole beside its place and swapped in, and
what comes out is compared with what should have been there: if it is not, it is swapped back. So there is no moment at
which a host's edit between a check and a rename could be lost, and none at which the place holds half a file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import replace

from paddock.fs import exchange, rename_new
from paddock.workspace.entries import Entry, Seen, chunks, digest, open_file, seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CANNOT_SWAP = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class Conflict(Exception):
    """The workspace, or the box's file, is not what the plan says."""


def content(at: int, name: str) -> Seen:
    """What an entry of a directory is, with the digest of a file."""
    found = seen(at, name)
    if found.entry is not Entry.FILE:
        return found
    fd = open_file(at, name)
    try:
        return replace(found, digest=digest(fd))
    finally:
        os.close(fd)


def check(at: int, name: str, expected: Seen) -> None:
    """Conflict unless the entry has the content and the permissions that are expected."""
    found = content(at, name)
    if not found.same_content(expected):
        raise Conflict(_difference(found, expected))
    if found.mode != expected.mode and found.entry is not Entry.SYMLINK:
        raise Conflict(f"its mode is {found.mode:04o} on the host by now")


def copy(source: int, directory: int, name: str, expected: Seen) -> int:
    """Copy a file to a new one and return a descriptor of that; Conflict if the bytes are not those of the digest."""
    if os.fstat(source).st_size != expected.size:  # a sparse file of any length is made in a moment
        raise Conflict("it changed since it was looked at")
    fd = os.open(name, _NEW, 0o600, dir_fd=directory)
    try:
        total = hashlib.sha256()
        for chunk in chunks(source):
            total.update(chunk)
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(fd, rest) :]
        if total.hexdigest() != expected.digest:
            raise Conflict("it changed since it was looked at")
    except BaseException:
        os.close(fd)
        os.unlink(name, dir_fd=directory)
        raise
    return fd


def own(fd: int, mode: int, like: os.stat_result) -> None:
    """Give a new entry its permissions and, as far as we may, the owner of what it replaces or lies in."""
    status = os.fstat(fd)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(fd, like.st_uid, like.st_gid)
        except PermissionError:
            pass  # only root gives files away; without it they are the caller's, as the box's were
    inherited = status.st_mode & stat.S_ISGID if stat.S_ISDIR(status.st_mode) else 0  # of a directory shared by a group
    os.fchmod(fd, mode | inherited)


def swap_in(at: int, fresh: str, name: str, before: Seen) -> None:
    """Let `name` mean what `fresh` means if it still means `before`; nothing of ours is left at `fresh` either way.

    A directory is replaced only if it is empty.
    """
    ours = seen(at, fresh).inode
    if before.entry is Entry.NOTHING:
        with _removed_if_it_fails(at, fresh):
            _take(at, fresh, name)
        return
    with _removed_if_it_fails(at, fresh):
        try:
            exchange(at, fresh, at, name)
        except FileNotFoundError:
            raise Conflict("it is gone from the host by now") from None
        except OSError as error:
            if error.errno not in _CANNOT_SWAP:
                raise
            check(at, name, before)  # without a swap there is a gap here, as everywhere on such file systems
            if Entry.DIR in {before.entry, seen(at, fresh).entry}:
                remove(at, name)
            os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
            return
    try:
        check(at, fresh, before)
        remove(at, fresh)
    except BaseException:
        _swap_back(at, fresh, name, ours)
        raise


def remove(at: int, name: str) -> None:
    """Remove a file, a link or an empty directory; Conflict if it is not empty."""
    try:
        if seen(at, name).entry is Entry.DIR:
            os.rmdir(name, dir_fd=at)
        else:
            os.unlink(name, dir_fd=at)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        raise Conflict("there is something in it on the host that stays") from None


@contextlib.contextmanager
def _removed_if_it_fails(at: int, fresh: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        remove(at, fresh)
        raise


def _swap_back(at: int, fresh: str, name: str, ours: int) -> None:
    """Give the host's entry its name again; our own goes only if it is surely ours."""
    try:
        exchange(at, fresh, at, name)
    except FileNotFoundError:  # ours was removed meanwhile
        _take(at, fresh, name)
        return
    if seen(at, fresh).inode != ours:
        raise Conflict(f"the host replaced it twice in this moment; one of its versions is now {fresh!r}")
    remove(at, fresh)


def take_out(at: int, name: str, aside: str, before: Seen) -> None:
    """Remove `name` if it still means `before`; in between it lies at `aside`."""
    try:
        _take(at, name, aside)
    except FileNotFoundError:
        raise Conflict("it is gone from the host by now") from None
    try:
        check(at, aside, before)
    except BaseException:
        _take(at, aside, name)
        raise
    os.unlink(aside, dir_fd=at)


def chmod(at: int, name: str, mode: int) -> None:
    """Set permissions without following a link and without the right to read."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise Conflict("it is a symbolic link on the host by now")
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _take(at: int, old: str, new: str) -> None:
    try:
        rename_new(at, old, at, new)
    except FileExistsError:
        raise Conflict("the host has something there by now") from None
    except OSError as error:
        if error.errno not in _CANNOT_SWAP:
            raise
        if seen(at, new).entry is not Entry.NOTHING:
            raise Conflict("the host has something there by now") from None
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)


def _difference(found: Seen, expected: Seen) -> str:
    if found.entry is Entry.NOTHING:
        return "it is gone from the host by now"
    if found.entry is not expected.entry:
        return f"it is a {found.entry.value} on the host by now"
    return "its content changed on the host since it was looked at"

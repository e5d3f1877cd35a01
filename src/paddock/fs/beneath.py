"""Open files beneath a directory whose content an agent may be changing at this moment.

No name is looked up twice: the descriptor that comes back is the file that was checked. Symbolic links are never
followed, in the last place or before it, so a swap of a directory for a link between two calls leads nowhere. openat2
does this in the kernel; where it is missing (old kernels, filters of old container runtimes) the path is walked one
component at a time, with the same answers.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat

from paddock.fs.walk import mount_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SYS_OPENAT2 = 437  # one number on every architecture we run on
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_PATH_BYTES = 4096  # PATH_MAX, with its NUL

# O_NONBLOCK: neither a FIFO without a writer nor a lease that the agent holds on its file may hang us.
_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW
_UNLESS_PATH = os.O_NONBLOCK | os.O_NOCTTY
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_beneath(path: str, root: str) -> bool:
    """Whether an absolute path is another or lies in it, by their names alone; nothing is looked up."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def open_beneath(root_fd: int, path: str, flags: int, mode: int = 0, *, one_mount: bool = False) -> int:
    """A descriptor of the regular file or directory at `path` below `root_fd`, or OSError.

    EXDEV: the path is absolute, has `..` or, with `one_mount`, enters something mounted below; ELOOP or ENOTDIR: a
    symbolic link is in the way; ENXIO: a FIFO, socket or device. With O_PATH the last component may be anything, a
    link too, and is not opened.
    """
    parts, flags = _parse(path, flags)
    if not flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY):
        mode = 0  # openat2 refuses a mode that means nothing
    if _has_openat2() and len(os.fsencode(path)) < _PATH_BYTES:
        fd = _open_at_once(root_fd, parts, flags, mode, _RESOLVE | _NO_XDEV if one_mount else _RESOLVE)
    else:
        fd = _open_by_steps(root_fd, parts, flags, mode, one_mount=one_mount)
    if flags & os.O_PATH:
        return fd
    return _plain(fd, path)


@contextlib.contextmanager
def opened_beneath(root_fd: int, path: str, flags: int) -> Iterator[int]:
    """As open_beneath, and closed afterwards."""
    fd = open_beneath(root_fd, path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def opened_directory(path: str) -> Iterator[int]:
    """One that is where we put it, or where its user says that it is: links on the way are followed."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def read_beneath(root_fd: int, path: str, bytes_max: int) -> bytes:
    """All of a file below `root_fd`, or OSError: EFBIG if it has more."""
    with (
        opened_beneath(root_fd, path, os.O_RDONLY) as fd,
        open(fd, "rb", closefd=False) as file,  # which would leave the descriptor of a directory open
    ):
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return data


def _parse(path: str, flags: int) -> tuple[list[str], int]:
    if "\0" in path or not _is_a_name(path):
        raise OSError(errno.EINVAL, "no file can have this name", path)
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, "path leads out of its directory", path)
    flags |= _ALWAYS if flags & os.O_PATH else _ALWAYS | _UNLESS_PATH
    if parts[-1] in {"", "."}:
        if flags & os.O_CREAT:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        flags |= os.O_DIRECTORY
    return [part for part in parts if part not in {"", "."}] or ["."], flags


def _is_a_name(path: str) -> bool:
    """A path that came as JSON may hold half a surrogate pair, which is no bytes at all."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _open_at_once(root_fd: int, parts: list[str], flags: int, mode: int, resolve: int) -> int:
    path = "/".join(parts)
    while True:
        fd, code = _openat2(root_fd, os.fsencode(path), flags, mode, resolve)
        if fd >= 0:
            return fd
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), path)


def _open_by_steps(root_fd: int, parts: list[str], flags: int, mode: int, *, one_mount: bool) -> int:
    at = root_fd
    try:
        for name in parts[:-1]:
            below = _step(at, name)
            if at != root_fd:
                os.close(at)
            at = below
        if one_mount:
            _check_mount(root_fd, at, parts)
        fd = os.open(parts[-1], flags, mode, dir_fd=at)
        try:
            if one_mount:
                _check_mount(root_fd, fd, parts)
        except OSError:
            os.close(fd)
            raise
        return fd
    finally:
        if at != root_fd:
            os.close(at)


def _check_mount(root_fd: int, fd: int, parts: list[str]) -> None:
    if mount_id(fd) != mount_id(root_fd):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), "/".join(parts))


def _step(at: int, name: str) -> int:
    try:
        return os.open(name, _STEP, dir_fd=at)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _plain(fd: int, path: str) -> int:
    """Refuse what has no end or has a driver behind it; a reader of agent files wants neither."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return fd
    os.close(fd)
    raise OSError(errno.ENXIO, "not a regular file or directory", path)


@functools.cache
def _has_openat2() -> bool:
    # By doing: a filter of an old container runtime answers EPERM where an old kernel answers ENOSYS.
    fd, _ = _openat2(-100, b".", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE)
    if fd < 0:
        return False
    os.close(fd)
    return True


def _openat2(root_fd: int, path: bytes, flags: int, mode: int, resolve: int) -> tuple[int, int]:
    import ctypes
    import struct

    how = struct.pack("=QQQ", flags, mode & 0o7777, resolve)
    fd = int(_syscall()(ctypes.c_long(_SYS_OPENAT2), root_fd, path, how, ctypes.c_size_t(len(how))))
    return fd, ctypes.get_errno() if fd < 0 else 0


@functools.cache
def _syscall() -> Callable[..., int]:
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call

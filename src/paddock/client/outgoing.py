"""A file that the daemon fills and the caller keeps: it appears under its name when it is whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os

from paddock.errors import Unavailable, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})  # of file systems without O_TMPFILE


@contextlib.contextmanager
def outgoing(path: str, directory: int | None = None) -> Iterator[str]:
    """An empty file, by a name that the daemon can open; at `path` when this is left without an error.

    `directory` is a descriptor of the directory that `path` is in, for those who looked where it leads.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with contextlib.ExitStack() as held:
        with _translated(path):
            at = os.open(folder, _DIRECTORY) if directory is None else os.dup(directory)
            held.callback(os.close, at)
            if os.path.isdir(f"/proc/self/fd/{at}/{name}"):
                raise UserError(f"{path} is a directory", hint="give the name of a file", code="usage")
            fd, fresh = _empty(at)
        held.callback(os.close, fd)
        try:
            yield f"/proc/{os.getpid()}/fd/{fd}"
            with _translated(path):
                os.fsync(fd)
                _publish(at, fd, fresh, name)
                os.fsync(at)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=at)
            raise


def absolute(path: str) -> str:
    """As the daemon, which is elsewhere, can open it."""
    return os.path.abspath(path)


def _empty(at: int) -> tuple[int, str]:
    """A new file, and its name for the time being: one that it has, or that it may get if it has none."""
    fresh = f".new-{os.urandom(8).hex()}"
    try:
        return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=at), fresh
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    return os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at), fresh


def _publish(at: int, fd: int, fresh: str, name: str) -> None:
    if os.fstat(fd).st_nlink == 0:
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=at)
        except FileExistsError:
            os.link(f"/proc/self/fd/{fd}", fresh, dst_dir_fd=at)
        else:
            return
    os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space and try again" if full else "give a place that you can write to"
        kind = Unavailable if full else UserError
        raise kind(f"cannot write {path}: {error.strerror}", hint=hint, code="write") from error

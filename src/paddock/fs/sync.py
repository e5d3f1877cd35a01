"""Get files to the disk: one by one while they are few, whole file systems when they are many."""

from __future__ import annotations

import functools
import os

from paddock.fs.beneath import opened_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FEW = 16  # beyond, one syncfs is cheaper than so many journal commits


def sync_all(fds: Iterable[int]) -> None:
    """Have all these files and directories on disk. Descriptors are open for reading or writing, not O_PATH."""
    fds = list(fds)
    if len(fds) <= _FEW:
        for fd in fds:
            os.fsync(fd)
        return
    sync_file_systems(fds)


def sync_directory(path: str) -> None:
    """Have the names in a directory on disk, as after a rename."""
    with opened_directory(path) as fd:
        os.fsync(fd)


def sync_file_systems(fds: Iterable[int]) -> None:
    """Have all that was written to the file systems of these files on disk."""
    for fd in {os.fstat(fd).st_dev: fd for fd in fds}.values():
        _syncfs(fd)


def _syncfs(fd: int) -> None:
    import ctypes

    if _call()(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _call() -> Callable[..., int]:
    import ctypes

    return ctypes.CDLL(None, use_errno=True).syncfs

"""Renames that lose nothing: a name is taken only if it is free, or what it had comes back under the other name."""

from __future__ import annotations

import errno
import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NOREPLACE, _EXCHANGE = 1, 2


def rename_new(old_dir: int, old: str, new_dir: int, new: str) -> None:
    """Rename, or FileExistsError if `new` is taken. OSError EINVAL: this file system cannot say."""
    _renameat2(old_dir, old, new_dir, new, _NOREPLACE)


def exchange(one_dir: int, one: str, other_dir: int, other: str) -> None:
    """Swap what two names mean, in one step. OSError EINVAL: this file system cannot."""
    _renameat2(one_dir, one, other_dir, other, _EXCHANGE)


def _renameat2(old_dir: int, old: str, new_dir: int, new: str, flags: int) -> None:
    import ctypes

    if _call()(old_dir, os.fsencode(old), new_dir, os.fsencode(new), ctypes.c_uint(flags)) != 0:
        number = ctypes.get_errno()
        if number == errno.ENOSYS:
            number = errno.EINVAL
        raise OSError(number, os.strerror(number), old, None, new)


@functools.cache
def _call() -> Callable[..., int]:
    import ctypes

    return ctypes.CDLL(None, use_errno=True).renameat2

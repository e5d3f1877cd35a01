"""Which file a name means, told apart from one that was made later with the same inode number."""

from __future__ import annotations

import ctypes
import functools
import os
import struct

_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100
_BASIC, _BIRTH = 0x7FF, 0x800
_BYTES = 256
# statx(2): the mask, the inode, and the times of birth and change as seconds and nanoseconds; the device's two numbers
_MASK_AT, _INODE_AT, _BIRTH_AT, _CHANGE_AT, _DEVICE_AT = 0, 32, 80, 96, 136


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def born(path: str) -> tuple[int, ...]:
    """Device, inode and birth of what is at `path`, not following a link there; empty if nothing is.

    A file system that keeps no birth times has the time of the last change instead: then a name looks like another file
    when its file was only changed.
    """
    found = ctypes.create_string_buffer(_BYTES)
    if _libc().statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _BASIC | _BIRTH, found) < 0:
        return ()
    (mask,) = struct.unpack_from("=I", found, _MASK_AT)
    time_at = _BIRTH_AT if mask & _BIRTH else _CHANGE_AT
    return (
        *struct.unpack_from("=II", found, _DEVICE_AT),
        *struct.unpack_from("=Q", found, _INODE_AT),
        *struct.unpack_from("=qI", found, time_at),
    )

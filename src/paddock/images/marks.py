"""How a layer on disk says that it hides something of the layers below: the kernel's own marks.

A whiteout is a character device 0/0, which since Linux 5.8 anybody may make. A directory that hides all below it has
user.overlay.opaque, the form of mounts with `userxattr`: every overlay of ours is mounted in a user namespace, also
for a root caller, and the trusted.* form would not be read there.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from paddock.errors import Unavailable

OURS: Final = "user.overlay."
PREFIXES: Final = (OURS, "trusted.overlay.")
_OPAQUE: Final = f"{OURS}opaque"
# Content that is elsewhere, in a layer of another chain: our mounts never make such.
_FOREIGN: Final = (f"{OURS}redirect", f"{OURS}metacopy")
_NO_MARK: Final = frozenset({errno.ENODATA, errno.EOPNOTSUPP})


def hide(at: int, name: str) -> None:
    """Put a whiteout for a name; FileExistsError if something is there."""
    try:
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=at)
    except PermissionError as error:
        raise Unavailable(
            f"this machine lets nobody mark a file as hidden: {error.strerror}",
            hint="layers that remove files need Linux 5.8 or newer, and a file system that keeps devices",
            code="no-whiteouts",
        ) from error


def make_opaque(fd: int) -> None:
    try:
        os.setxattr(fd, _OPAQUE, b"y")
    except OSError as error:
        raise Unavailable(
            f"a directory cannot be marked as opaque: {error.strerror}",
            hint="keep paddock's state on a file system with user.* attributes: ext4, xfs, btrfs, tmpfs since 6.6",
            code="no-xattrs",
        ) from error


def is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(fd: int) -> bool:
    return _mark(fd, _OPAQUE) == b"y"


def is_foreign(fd: int) -> bool:
    return any(_mark(fd, name) is not None for name in _FOREIGN)


def _mark(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError as error:
        if error.errno in _NO_MARK:
            return None
        raise

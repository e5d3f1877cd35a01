"""The marks the kernel leaves in an overlay's upper directory, and how to lift them.

Format `userxattr` (kernel documentation, filesystems/overlayfs.rst): a whiteout, which hides a name of the lower tree,
is a character device 0/0 or an empty file with user.overlay.whiteout; a directory that hides all of the lower one has
user.overlay.opaque = "y". A box cannot forge them: inside the mount such names are escaped, and it makes no devices.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_WHITEOUT, _OPAQUE, _REDIRECT, _METACOPY = (
    f"user.overlay.{name}" for name in ("whiteout", "opaque", "redirect", "metacopy")
)
_NO_MARK = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})


def is_whiteout(at: int, name: str, status: os.stat_result) -> bool:
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev == 0
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        return False
    return _mark_by_name(at, name, _WHITEOUT) is not None


def is_opaque(fd: int) -> bool:
    return _mark(fd, _OPAQUE) == b"y"


def is_foreign(fd: int) -> bool:
    """Whether a directory or file is marked as our mounts never mark it: its content would be elsewhere."""
    return _mark(fd, _REDIRECT) is not None or _mark(fd, _METACOPY) is not None


def hide(at: int, names: Iterable[str]) -> None:
    """Put whiteouts for names of the lower directory; those that have an entry already are left alone."""
    for name in names:
        try:
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=at)
        except FileExistsError:
            continue


def lift(fd: int) -> None:
    """Let the lower directory show through an opaque one again."""
    try:
        os.removexattr(fd, _OPAQUE)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise


def _mark(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError as error:
        if error.errno in _NO_MARK:
            return None
        raise


def _mark_by_name(at: int, name: str, mark: str) -> bytes | None:
    try:
        return os.getxattr(f"/proc/self/fd/{at}/{name}", mark, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_MARK or error.errno == errno.ENOENT:
            return None
        raise

"""Files of one user alone: read only if nobody else could have written or read them.

The directory is private (fs.make_private_dir), so what is wrong with a file in it is the doing of its owner or of a
restore from a backup: it is named, and not used.
"""

from __future__ import annotations

import os
import stat

from paddock.errors import Unavailable

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_own(path: str, most_bytes: int) -> bytes:
    """FileNotFoundError if it is not there; Unavailable if it is a link, somebody else's, or open to others."""
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(path, error.strerror or "it cannot be opened") from error
    try:
        if problem := _problem(os.fstat(fd), most_bytes):
            raise _refused(path, problem)
        return read_all(fd, most_bytes)
    finally:
        os.close(fd)


def read_all(fd: int, most_bytes: int) -> bytes:
    """Up to `most_bytes`, and one more if there are more."""
    data = b""
    while len(data) <= most_bytes and (more := os.read(fd, most_bytes + 1 - len(data))):
        data += more
    return data


def _problem(status: os.stat_result, most_bytes: int) -> str:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return "it is not a plain file with one name"
    if status.st_uid != os.geteuid():
        return f"it belongs to uid {status.st_uid}"
    if status.st_mode & 0o077:
        return "others may read or write it"
    return "it is too large" if status.st_size > most_bytes else ""


def _refused(path: str, reason: str) -> Unavailable:
    return Unavailable(f"cannot use {path!r}: {reason}", hint="set the secret again", code="secret-file")

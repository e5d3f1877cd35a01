"""A workspace's paddock.toml, read as what it is: bytes that the box may have written."""

from __future__ import annotations

import logging
import os
import stat

from paddock.errors import UserError
from paddock.limits import PROJECT_FILE_BYTES

log = logging.getLogger(__name__)
FILE = "paddock.toml"


def read(workspace: str) -> str:
    """Its text, empty when there is none; UserError when it is no text of a sensible size.

    TRUST: the box writes this file. It is opened without following a link and without waiting, its size is bounded, and
    what it asks for counts only after the user approved this very content.
    """
    path = f"{workspace}/{FILE}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _unreadable(path, "it is not a file")
        data = os.read(fd, PROJECT_FILE_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > PROJECT_FILE_BYTES:
        raise _unreadable(path, f"it is over {PROJECT_FILE_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8") from error


def _unreadable(path: str, why: str) -> UserError:
    return UserError(f"cannot read {path}: {why}", hint="mend it or remove it", code="bad-project")

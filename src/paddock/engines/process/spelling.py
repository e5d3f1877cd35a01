"""Whether what is closed to a box has one name alone.

Some file systems find a file by other spellings of its name, upper case for lower. Where the kernel knows of that it
has one entry for all of them, and a mount on the one covers the others. Of file systems that a server provides (FUSE,
virtiofs, 9p as in WSL's /mnt/c) it does not know: every spelling of a *file* is an entry of its own, and a mount covers
one. Directories have one entry everywhere. From here both kinds look alike, so both are refused.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import UserError
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paddock.engines.process.operations import MountOp
    from paddock.model import Mount


def require_one(shown: Iterable[Mount], ops: Iterable[MountOp]) -> None:
    """UserError if a file that is mounted over in one of the user's directories could be reached past its mount."""
    inner_first = sorted(shown, key=lambda mount: -len(mount.target))
    tops = {mount.target for mount in inner_first}
    for target in {op.target for op in ops if op.op != "pin"} - tops:
        around = next((mount for mount in inner_first if fs.is_beneath(target, mount.target)), None)
        if around is not None:
            path = around.source + target[len(around.target) :]
            if has_other_spellings(path):
                raise _refused(path)


def has_other_spellings(path: str) -> bool:
    """Of a file that exists: whether its directory finds it by names that it does not list."""
    directory, name = os.path.split(path)
    try:
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            return False
        others = {other for other in _spellings(name) if _is(f"{directory}/{other}", found)}
        return bool(others) and not {name, *others} <= set(os.listdir(directory))  # all listed: hard links
    except OSError:
        return False  # it is not there, so that nothing is mounted on it


def _spellings(name: str) -> Iterator[str]:
    forms = (name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))
    return (form for form in dict.fromkeys(forms) if form != name)


def _is(path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), found)
    except OSError:
        return False


def _refused(path: str) -> UserError:
    message = f"{neutralise(path)} cannot be closed to the box: its file system finds it by other spellings too"
    hint = "move the project to one that tells upper from lower case (in WSL: below ~), or use --clone"
    return UserError(message, hint=hint, code="spelling")

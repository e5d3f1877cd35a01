"""What a chain of directories shows at a path, as the kernel would mount them: one entry of it, found by descriptors.

# TRUST: agents wrote all of it. No link is followed in any layer, and what a layer hides is not there: a whiteout, a
file or a link in the place of a directory, and an opaque directory end the search.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from paddock import fs
from paddock.images import marks

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_entry(trees: Sequence[str], path: str, flags: int) -> int:
    """As fs.open_beneath over directories, lowest first. FileNotFoundError also for what a layer hides."""
    *way, last = [name for name in path.split("/") if name not in {"", "."}] or ["."]
    if ".." in (*way, last):
        raise OSError(errno.EXDEV, "path leads out of its directory", path)
    for tree in reversed(trees):
        with contextlib.ExitStack() as opened:
            at, is_last_word = _parent(tree, way, opened)
            if at is not None:
                with contextlib.suppress(FileNotFoundError):
                    if marks.is_whiteout(os.stat(last, dir_fd=at, follow_symlinks=False)):
                        break
                    return fs.open_beneath(at, last, flags)
            if is_last_word:
                break
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _parent(tree: str, way: list[str], opened: contextlib.ExitStack) -> tuple[int | None, bool]:
    """The directory in one tree, if it has it, and whether what is below this tree is hidden."""
    at = os.open(tree, fs.LISTABLE)
    opened.callback(os.close, at)
    hides = False
    for name in way:
        try:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return None, hides
        if marks.is_whiteout(status):
            return None, True
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        at = os.open(name, fs.LISTABLE, dir_fd=at)
        opened.callback(os.close, at)
        hides = hides or marks.is_opaque(at)
    return at, hides

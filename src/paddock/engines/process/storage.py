"""A box's private storage: home, journals and a review's layers stay from run to run, /tmp does not."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.process import branch
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from paddock.readiness import to_its_end

if TYPE_CHECKING:
    from paddock.engines.base import Placement


async def prepare(placement: Placement) -> None:
    """Before each start."""
    for name in ("home", "run", "journal"):
        _make_directory(f"{placement.directory}/{name}")
    temporary = f"{placement.directory}/tmp"
    if not _make_directory(temporary):
        # A box may have left a million files there, and the next start must not find a thread at work on them.
        await to_its_end(asyncio.to_thread(fs.remove_tree, temporary))
        _make_directory(temporary)
    os.chmod(temporary, 0o1777)  # beneath a 0700 directory
    if placement.spec.home_layers:
        _make_directory(f"{placement.directory}/{branch.WORK}")
    if placement.spec.mode is WorkspaceMode.REVIEW:
        _prepare_layers(f"{placement.directory}/review", os.lstat(placement.spec.workspace))


def stand_in(placement: Placement) -> None:
    """What a plan of a box that never ran stands on."""
    for name in ("home", "tmp"):
        _make_directory(f"{placement.directory}/{name}")


def _prepare_layers(directory: str, workspace: os.stat_result) -> None:
    """Where a review box's changes lie: `upper`, and the kernel's own `work`."""
    if _make_directory(directory):
        _require_attributes(directory)
    os.chmod(directory, 0o711)  # a root caller's box goes through it as somebody else; it lies beneath a 0700 one
    for name in ("upper", "work"):
        path = f"{directory}/{name}"
        if _make_directory(path):
            os.chmod(path, workspace.st_mode & 0o777)
        if os.getuid() == 0:  # as what is in the workspace: the box's user stands for that owner
            os.chown(path, workspace.st_uid, workspace.st_gid)


def _require_attributes(directory: str) -> None:
    try:
        os.setxattr(directory, "user.paddock", b"")
    except OSError as error:
        raise Unavailable(
            f"no review here: {directory} is on a file system without extended attributes ({error.strerror})",
            hint="put PADDOCK_HOME on ext4, xfs, btrfs, or on tmpfs with Linux 6.6 or newer",
            code="no-attributes",
        ) from error


def _make_directory(path: str) -> bool:
    """Whether it is new."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    return True

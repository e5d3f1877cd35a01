"""A copy of a live workspace in a checkpoint, where it was asked for.

The directory is the user's own, and others may write to it while it is copied. So no restore puts it back and no fork
sees it: it comes out on request alone, in a directory that was not there before.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import Unavailable, UserError
from paddock.fs import resolving
from paddock.images.layers import LayerId, Layers
from paddock.model import WorkspaceMode
from paddock.runtime import apart, checkpoints, leasing, tooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.reports import CheckpointInfo
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

_PART: Final = "workspace"


def check(box: Box) -> None:
    if box.row.spec.mode is not WorkspaceMode.LIVE:
        hint = "leave --with-workspace out: it is for boxes that work in the directory itself"
        raise UserError(f"the workspace of {box.name!r} is part of every checkpoint", hint=hint, code="usage")


def take(workspace: str, storage: str) -> None:
    """May take long."""
    apart.take_in(workspace, f"{storage}/{_PART}")


async def bring(runtime: Runtime, word: str, place: str) -> CheckpointInfo:
    """Copy it to a new directory of the user's."""
    box, row = await checkpoints.find(runtime, word)
    if not checkpoints.has_workspace(box, row):
        hint = "`checkpoint create --with-workspace` keeps one"
        raise UserError(f"{word} holds no copy of a workspace", hint=hint, code="no-workspace")
    trees = sorted({tree for one in runtime.boxes.values() for tree in tooling.writable(one.row.spec)})
    real = _new_place(runtime, place, trees)
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers, row):
        await asyncio.to_thread(_bring, f"{layers.tree(LayerId(row.storage))}/{_PART}", real, trees)
    return checkpoints.info(box, row)


def _new_place(runtime: Runtime, place: str, trees: Sequence[str]) -> str:
    """Where it is, without links; one that a box may have made leads nowhere."""
    if not os.path.isabs(place) or os.path.normpath(place) != place:
        raise UserError(f"{place[:80]!r} is no absolute path", code="usage")
    if os.path.lexists(place):
        raise UserError(f"{place} exists", hint="name a directory that does not: nothing is replaced", code="exists")
    real = resolving.resolve(place, trees)
    if any(fs.is_beneath(real, os.path.realpath(private)) for private in runtime.paths.private):
        raise UserError(f"{place} is a place of paddock's own", hint="choose another directory", code="usage")
    return real


def _bring(source: str, place: str, trees: Sequence[str]) -> None:
    try:
        apart.bring(source, place, trees)
    except OSError as error:
        raise Unavailable(f"cannot make {place}: {error.strerror}", code="os") from error

"""The user's directories as a box has them, by the mode of its workspace, and what is mounted in and over them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs, guard
from paddock.engines.process import protections
from paddock.engines.process.operations import MountOp, bind
from paddock.errors import Unavailable, UserError
from paddock.model import Mount, WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.engines.process.operations import Ground
    from paddock.model import BoxSpec


def shown(spec: BoxSpec, ground: Ground) -> list[Mount]:
    """The user's own directories, outer ones first, so that none covers another."""
    workspace = Mount(source=_workspace(spec, ground), target=spec.workspace)
    return sorted((workspace, *spec.mounts), key=lambda mount: mount.target.count("/"))


def _workspace(spec: BoxSpec, ground: Ground) -> str:
    if spec.mode is not WorkspaceMode.CLONE:
        return spec.workspace
    clone = next((mount.source for mount in ground.view if mount.target == spec.workspace), "")
    if not clone:
        raise Unavailable(f"the box {spec.name!r} has lost its clone", hint="recreate the box", code="no-clone")
    return clone


def mounts(spec: BoxSpec, shown: list[Mount], ground: Ground, own: Sequence[str]) -> list[MountOp]:
    """The user's directories and what lies in or over them, outer ones first; `own` as plan.of_user has it."""
    ops = []
    for mount in shown:
        if mount.target == spec.workspace and spec.mode is WorkspaceMode.REVIEW:
            ops.append(_overlay(mount, ground))
        else:
            ops.append(_bound(mount, ground))
    ops += [*_ways(shown), *_ways_to(shown, own)]
    ops += [_viewed(mount, ground) for mount in ground.view if mount.target != spec.workspace]
    return sorted(ops, key=lambda op: op.target.count("/"))


def _ways(shown: list[Mount]) -> list[MountOp]:
    """Directories between a mount and one inside it: renamed, they would take that along, and another get its name."""
    steps = set()
    for outer in shown:
        for inner in shown:
            place = os.path.dirname(inner.target)
            while place.startswith(f"{outer.target}/"):
                steps.add(place)
                place = os.path.dirname(place)
    return [MountOp(op="pin", target=step, optional=True) for step in sorted(steps - {one.target for one in shown})]


def _ways_to(shown: list[Mount], own: Sequence[str]) -> list[MountOp]:
    """The same of directories of the box's own around a mount: what lies over the host's files is put back by its name
    when the host replaces one, and another could have that name by then.
    """
    steps = set()
    for outer in own:
        for inner in shown:
            place = os.path.dirname(inner.target)
            while place != "/" and place.startswith(f"{outer.rstrip('/')}/"):
                steps.add(place)
                place = os.path.dirname(place)
    around = [step for step in sorted(steps) if not any(fs.is_beneath(step, one.target) for one in shown)]
    return [MountOp(op=kind, target=step) for step in around for kind in ("dir", "pin")]


def _viewed(mount: Mount, ground: Ground) -> MountOp:
    if mount.source == mount.target:  # it is there already, with the directory around it: no tree to open
        if mount.read_only:
            return MountOp(op="readonly", target=mount.target)
        closed = [other.target for other in ground.view if other.read_only]
        if not any(fs.is_beneath(mount.target, place) for place in closed):
            return MountOp(op="pin", target=mount.target)
    return _bound(mount, ground)


def _bound(mount: Mount, ground: Ground) -> MountOp:
    return bind(mount.source, mount.target, ground, read_only=mount.read_only, own=True)


def _overlay(mount: Mount, ground: Ground) -> MountOp:
    """The workspace below, a layer of the box's own above: the kernel shows them as one and writes to the upper."""
    protections.refuse_repository(mount.source)
    for point in guard.mounts_inside(mount.source):
        hint = "leave review mode out, or give a directory without mounts; `umount` it if it is not needed"
        raise UserError(f"{point} is mounted inside the workspace, and a review shows one file system", hint=hint)
    return replace(_bound(mount, ground), op="overlay", layers=f"{ground.storage}/review")


def masked(spec: BoxSpec) -> list[MountOp]:
    """Empty and read-only; and no directory on the way can be moved, or the next start would not find what to hide."""
    ops = []
    for path in spec.masks:
        *way, last = protections.pinned(spec.workspace, path)
        ops += [replace(op, optional=True) for op in way]
        ops.append(MountOp(op="cover", target=last.target, optional=True))
    return list(dict.fromkeys(ops))

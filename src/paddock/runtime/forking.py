"""Boxes that begin as another is, or was."""

from __future__ import annotations

import asyncio
import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.errors import UserError
from paddock.images.layers import LayerId, Layers
from paddock.model import WorkspaceMode
from paddock.readiness import to_its_end
from paddock.runtime import apart, bases, boxparts, checkpoints, freezing, leasing, memory, workspaces
from paddock.runtime.bases import GIT
from paddock.workspace import gitdir

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.images.leases import Lease
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow


async def fork(runtime: Runtime, word: str, count: int = 1, *, stop: bool = False) -> list[Box]:
    """Boxes that begin as a box is, or as it was at a checkpoint; none of them is heard of by another."""
    if not 1 <= count <= limits.FORKS_MAX:
        raise UserError(f"1 to {limits.FORKS_MAX} forks at once", code="usage")
    layers = Layers(runtime.paths.layers)
    if "@" in word:
        box, row = await checkpoints.find(runtime, word)
        async with leasing.held(layers, row) as lease:
            return await _fork(runtime, box, row, lease, count)
    box = runtime.find(word)
    async with leasing.held(layers) as lease:
        async with box.lock:
            work = freezing.as_it_is(runtime, box, freezing.passing_name("fork"), lease, stop=stop)
            row = await to_its_end(freezing.passing(runtime, box, lease, work))
        freezing.follow(runtime, box, row)
        return await _fork(runtime, box, row, lease, count)  # it may be gone by now; the lease has all that is needed


async def _fork(runtime: Runtime, box: Box, row: CheckpointRow, lease: Lease, count: int) -> list[Box]:
    layers = Layers(runtime.paths.layers)
    spec = _forked(box.row.spec, row)
    made: list[Box] = []
    try:
        for number in range(count):
            with boxparts.staged(f"{lease.staging}/fork{number}") as copy:
                if row.storage:
                    stored = layers.tree(LayerId(row.storage))
                    await to_its_end(asyncio.to_thread(boxparts.copy, stored, copy, boxparts.copied(spec)))
                fill = functools.partial(_fill, layers, copy, box.directory, spec)
                await to_its_end(_add(runtime, box, spec, fill, made))
        for one in made if row.memory else ():
            async with one.lock:
                await memory.go_on(runtime, one, row)
    except BaseException:
        for one in made:
            await runtime.lifetimes.undo(one)
        raise
    return made


async def _add(runtime: Runtime, box: Box, spec: BoxSpec, fill: Callable[[str], None], made: list[Box]) -> None:
    made.append(await runtime.add(box, spec, fill))
    await asyncio.to_thread(_keep_base, made[-1].directory)


def _keep_base(directory: str) -> None:
    """What its repositories borrow from the host's stays for it, too: the box it is like may go before it starts."""
    bases.keep_on(bases.units(directory), directory)


def _fill(layers: Layers, copy: str, old: str, spec: BoxSpec, directory: str) -> None:
    """Give a new box its copy, and uppers; the home last: before it, nobody has heard of the box."""
    for part in boxparts.copied(spec):
        if fs.is_missing(f"{copy}/{part}"):
            continue
        os.makedirs(os.path.dirname(f"{directory}/{part}"), 0o711, exist_ok=True)
        apart.move(f"{copy}/{part}", f"{directory}/{part}")
        if part == GIT:
            gitdir.relocate(f"{directory}/{GIT}", f"{old}/{GIT}")
    boxparts.renew(layers, directory, spec)


def _forked(spec: BoxSpec, row: CheckpointRow) -> BoxSpec:
    """The same box in all but its name, what of it is on the host's ports, and the branch that it began with."""
    return replace(
        spec,
        name=f"{spec.name[: limits.NAME_CHARS - 10]}-fork",
        layers=row.root or spec.layers,
        home_layers=row.home,
        network=replace(spec.network, publish=()),
        branch=workspaces.branch_of(spec) if spec.mode is WorkspaceMode.CLONE else spec.branch,
    )

"""Boxes that begin as another is, or was."""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.errors import UserError
from paddock.images.layers import LayerId, Layers
from paddock.model import WorkspaceMode
from paddock.runtime import apart, bases, boxparts, checkpoints, freezing, leasing, memory, workspaces
from paddock.runtime.bases import GIT
from paddock.workspace import gitdir

if TYPE_CHECKING:
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow


async def fork(runtime: Runtime, word: str, count: int = 1, *, stop: bool = False) -> list[Box]:
    """Boxes that begin as a box is, or as it was at a checkpoint; none of them is heard of by another."""
    if not 1 <= count <= limits.FORKS_MAX:
        raise UserError(f"1 to {limits.FORKS_MAX} forks at once", code="usage")
    if "@" in word:
        box, row = await checkpoints.find(runtime, word)
        return await _fork(runtime, box, row, count)
    box = runtime.find(word)
    async with box.lock:
        name = f"fork.{secrets.token_hex(4)}"
        row = await checkpoints.to_its_end(freezing.as_it_is(runtime, box, name, stop=stop))
    try:
        return await _fork(runtime, box, row, count)
    finally:
        await runtime.register.drop_checkpoint(box, row.id)


async def _fork(runtime: Runtime, box: Box, row: CheckpointRow, count: int) -> list[Box]:
    layers = Layers(runtime.paths.layers)
    spec = _forked(box.row.spec, row)
    made: list[Box] = []
    async with leasing.held(layers, row) as lease:
        try:
            for number in range(count):
                with boxparts.staged(f"{lease.staging}/fork{number}") as copy:
                    if row.storage:
                        stored = layers.tree(LayerId(row.storage))
                        await checkpoints.to_its_end(
                            asyncio.to_thread(boxparts.copy, stored, copy, boxparts.copied(spec))
                        )
                    filling = _Filling(layers, copy, box.directory, spec)
                    await checkpoints.to_its_end(_add(runtime, box, spec, filling, made))
            for one in made if row.memory else ():
                async with one.lock:
                    await memory.go_on(runtime, one, row)
        except BaseException:
            for one in made:
                await runtime.lifetimes.undo(one)
            raise
    return made


async def _add(runtime: Runtime, box: Box, spec: BoxSpec, filling: _Filling, made: list[Box]) -> None:
    made.append(await runtime.add(box, spec, filling))
    await asyncio.to_thread(_keep_base, made[-1].directory)


def _keep_base(directory: str) -> None:
    """What its repositories borrow from the host's stays for it, too: the box it is like may go before it starts."""
    bases.keep_on(bases.units(directory), directory)


class _Filling:
    """Gives a new box its copy, and uppers; the home last: before it, nobody has heard of the box."""

    def __init__(self, layers: Layers, copy: str, old: str, spec: BoxSpec) -> None:
        self._layers, self._copy, self._old, self._spec = layers, copy, old, spec

    def __call__(self, directory: str) -> None:
        for part in boxparts.copied(self._spec):
            if fs.is_missing(f"{self._copy}/{part}"):
                continue
            os.makedirs(os.path.dirname(f"{directory}/{part}"), 0o711, exist_ok=True)
            apart.move(f"{self._copy}/{part}", f"{directory}/{part}")
            if part == GIT:
                gitdir.relocate(f"{directory}/{GIT}", f"{self._old}/{GIT}")
        boxparts.renew(self._layers, directory, self._spec)


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

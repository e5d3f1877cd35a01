"""A checkpoint is made: what a box is becomes layers.

A row that is not whole names the layers before they are made; when the last of them is there it is finished, else it
goes (settle).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.engines.container import ids
from paddock.errors import PaddockError, UserError
from paddock.images.layers import LayerId, Layers, new_frozen_id
from paddock.model import WorkspaceMode, check_name
from paddock.readiness import to_its_end
from paddock.runtime import (
    apart,
    boxparts,
    checkpoints,
    compaction,
    leasing,
    livecopies,
    memory,
    overlays,
    quotas,
)
from paddock.store import CheckpointRow, now

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from paddock.images.leases import Lease
    from paddock.reports import CheckpointInfo
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime


async def create(
    runtime: Runtime, box: Box, name: str = "", *, stop: bool = False, with_workspace: bool = False
) -> CheckpointInfo:
    """UserError while a command runs in the box, unless it may be stopped, or is kept with the rest."""
    if name:
        check_name(name)
    if with_workspace:
        livecopies.check(box)
    async with box.lock:
        known = await runtime.register.checkpoints(box)
        taken = {row.name for row in known}
        if name in taken:
            hint = f"`paddock checkpoint rm {box.name}@{name}` first, or choose another name"
            raise UserError(f"{box.name} has a checkpoint {name!r}", hint=hint, code="exists")
        if len(known) >= limits.CHECKPOINTS_PER_BOX:
            hint = f"`paddock checkpoint ls {box.name}` lists them; remove some"
            raise UserError(f"{box.name} has {len(known)} checkpoints", hint=hint, code="too-many")
        name = name or next(word for number in range(1, len(taken) + 2) if (word := f"c{number}") not in taken)
        async with leasing.held(Layers(runtime.paths.layers)) as lease:
            work = as_it_is(runtime, box, name, lease, stop=stop, with_workspace=with_workspace)
            row = await to_its_end(work)
    follow(runtime, box, row)
    return checkpoints.info(box, row)


def check(runtime: Runtime, box: Box) -> None:
    """Before anything in it ends: UserError if there is nothing to freeze, or no room for another layer."""
    checkpoints.check(box)
    count = len(boxparts.standing_on(box.row.spec))
    if count >= limits.LAYERS_PER_BOX:
        hint = "restore an earlier checkpoint, or go on in a box that is made anew"
        if compaction.begin(runtime, box):
            hint = f"they are merged while it does not run: `paddock stop {box.name}`, and try again in a moment"
        raise UserError(f"{box.name} is made of {count} layers", hint=hint, code="too-many")


def follow(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    """What comes after a freeze, and nobody waits for."""
    compaction.begin(runtime, box)
    runtime.flushing.ask()
    runtime.background.later(quotas.measure(runtime, row.layers), f"measure {box.name}@{row.name}")


async def passing(
    runtime: Runtime, box: Box, lease: Lease, work: Coroutine[None, None, CheckpointRow]
) -> CheckpointRow:
    """A checkpoint that nobody is told of: the lease keeps what it is made of, and its row goes."""
    row = await work
    try:
        await asyncio.to_thread(checkpoints.keep, Layers(runtime.paths.layers), lease, row)
    finally:
        await runtime.register.drop_checkpoint(box, row.id)
    return row


def passing_name(what: str) -> str:
    """No user can give such a name (check_name): where a crash leaves one, it is dropped (settling.py)."""
    return f".{what}.{secrets.token_hex(4)}"


def is_passing(row: CheckpointRow) -> bool:
    return row.name.startswith(".")


async def as_it_is(
    runtime: Runtime, box: Box, name: str, lease: Lease, *, stop: bool, with_workspace: bool = False
) -> CheckpointRow:
    """With what runs in it, where that can be; then the box goes on, also after a freeze that failed: until it does,
    what ran is in a layer that the lease alone keeps."""
    check(runtime, box)
    await quotas.check(runtime, box)
    saved = await memory.save(runtime, box, stop=stop)
    if not saved:
        await checkpoints.rest(runtime, box, stop=stop)
        return await freeze(runtime, box, name, lease, with_workspace=with_workspace)
    layer = new_frozen_id()
    try:
        return await freeze(runtime, box, name, lease, layer, with_workspace=with_workspace)
    finally:
        await memory.go_on_after(runtime, box, saved, layer)


async def freeze(
    runtime: Runtime, box: Box, name: str, lease: Lease, saved: str = "", *, with_workspace: bool = False
) -> CheckpointRow:
    """`saved` is to be the layer of what the engine has saved of its memory."""
    layers = Layers(runtime.paths.layers)
    spec = box.row.spec
    if not spec.home_layers:  # from now on the box cannot start without
        await asyncio.to_thread(overlays.require, runtime.paths.trash)
    chains = {part: (*chain, new_frozen_id()) for part, chain in boxparts.uppers(spec).items()}
    row = CheckpointRow(
        id=secrets.token_hex(8),
        box=box.row.id,
        name=name,
        created_at=now(),
        home=chains[boxparts.HOME],
        root=chains.get(boxparts.ROOT, ()),
        storage=new_frozen_id() if with_workspace or boxparts.copied(spec) else "",
        memory=saved,
    )
    await runtime.register.begin_checkpoint(row)
    try:
        await asyncio.to_thread(_freeze_files, layers, lease, box, row)
        await _finish(runtime, layers, box, row)
    except BaseException:  # no room, say: then nothing has happened
        await unfreeze(layers, box, row)
        with contextlib.suppress(PaddockError):  # recovery drops it
            await runtime.register.drop_checkpoint(box, row.id)
        raise
    return replace(row, is_whole=True)


def _freeze_files(layers: Layers, lease: Lease, box: Box, row: CheckpointRow) -> None:
    owners = ids.of_caller(box.row.position).owners
    with boxparts.undisturbed(box):
        if row.storage:
            with boxparts.staged(f"{lease.staging}/storage") as copy:
                boxparts.copy(box.directory, copy, boxparts.copied(box.row.spec))
                if box.row.spec.mode is WorkspaceMode.LIVE:
                    livecopies.take(box.row.spec.workspace, copy)
                layers.freeze(lease, copy, LayerId(row.storage), owners)
        if row.memory:
            layers.freeze(lease, f"{box.directory}/{boxparts.MEMORY}", LayerId(row.memory), owners, apart.move)
        for part, layer in _frozen(row):
            os.makedirs(f"{box.directory}/{part}", 0o755, exist_ok=True)
            if part == boxparts.ROOT:  # names of the host's; a start makes them anew
                apart.tidy(f"{box.directory}/{part}", boxparts.mounted_on(box.row.spec))
            layers.freeze(lease, f"{box.directory}/{part}", layer, owners, apart.move)


def _frozen(row: CheckpointRow) -> list[tuple[str, LayerId]]:
    """What becomes a layer by a rename, the home last: when it is there, all of it is."""
    chains = {boxparts.ROOT: row.root, boxparts.HOME: row.home}
    return [(part, LayerId(chain[-1])) for part, chain in chains.items() if chain]


async def settle(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    layers = Layers(runtime.paths.layers)
    if not layers.has(LayerId(row.last)):
        await unfreeze(layers, box, row)
        await runtime.register.drop_checkpoint(box, row.id)
        return
    try:
        await _finish(runtime, layers, box, row)
    except BaseException:
        await unfreeze(layers, box, row)  # else the box would start without what it did
        raise


async def _finish(runtime: Runtime, layers: Layers, box: Box, row: CheckpointRow) -> None:
    await runtime.register.finish_checkpoint(box, row)
    await asyncio.to_thread(boxparts.renew, layers, box.directory, box.row.spec)


async def unfreeze(layers: Layers, box: Box, row: CheckpointRow) -> None:
    """What was frozen is the box's own again, unless the box stands on it by now.

    The home first: whoever finds it frozen takes all of it to be.
    """
    for part, layer in reversed(_frozen(row)):
        if layer not in boxparts.uppers(box.row.spec)[part] and layers.has(layer):
            await asyncio.to_thread(layers.thaw, layer, f"{box.directory}/{part}", apart.move)

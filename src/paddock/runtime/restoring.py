"""A box is put back to a checkpoint.

A row of `restores` stands from the moment that the box's row has the old layers until its files are the old ones;
putting files in place can be done twice (_place).
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.container.removal import remove_tree
from paddock.images.layers import LayerId, Layers
from paddock.readiness import to_its_end
from paddock.runtime import apart, boxparts, checkpoints, flushing, leasing, memory
from paddock.runtime.boxparts import INCOMING

if TYPE_CHECKING:
    from paddock.images.leases import Lease
    from paddock.reports import CheckpointInfo
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow


async def restore(runtime: Runtime, word: str, *, stop: bool = False) -> CheckpointInfo:
    """Put a box back; what it did since is gone. What ran in it when the checkpoint was made runs again."""
    box, _ = await checkpoints.find(runtime, word)
    async with box.lock:
        row = await checkpoints.find_of(runtime, box, word.partition("@")[2])
        await checkpoints.be_still(runtime, box, stop=stop)
        await to_its_end(_restore(runtime, box, row))
        await memory.go_on(runtime, box, row)
    return checkpoints.info(box, row)


async def _restore(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    if begun := await runtime.register.restoring(box):  # and it failed: its files, and no others, may wait there
        await finish(runtime, box, await checkpoints.find_of(runtime, box, begun))
    layers = Layers(runtime.paths.layers)
    incoming = f"{box.directory}/{INCOMING}"
    await asyncio.to_thread(remove_tree, incoming)
    async with leasing.held(layers, row) as lease:  # until the box's row names them
        try:
            await asyncio.to_thread(_stage, layers, lease, box, row)
            await runtime.register.begin_restore(box, row)
        except BaseException:
            await asyncio.to_thread(remove_tree, incoming)
            raise
    await finish(runtime, box, row)


def _stage(layers: Layers, lease: Lease, box: Box, row: CheckpointRow) -> None:
    """On disk when this returns: what the box has instead goes as soon as that is written down."""
    parts = boxparts.copied(box.row.spec)
    with boxparts.staged(f"{lease.staging}/storage") as copy:
        if row.storage and parts:
            boxparts.copy(layers.tree(LayerId(row.storage)), copy, parts)
            flushing.sync(copy)
        os.rename(copy, f"{box.directory}/{INCOMING}")
    fs.sync_directory(box.directory)


async def finish(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    """Until it is done the box cannot start (lifetimes.py): there may be something in `incoming`."""
    layers = Layers(runtime.paths.layers)
    moved = await asyncio.to_thread(_place, layers, box, row, runtime.paths.trash)
    await runtime.register.end_restore(box)
    await asyncio.to_thread(remove_tree, f"{box.directory}/{INCOMING}")
    for path in moved:
        runtime.background.sweep(remove_tree, path)


def _place(layers: Layers, box: Box, row: CheckpointRow, trash: str) -> list[str]:
    """Give a box the files that wait in `incoming`, and empty uppers; returns where those it had are now.

    What was done before a crash is not done again.
    """
    incoming = f"{box.directory}/{INCOMING}"
    stored = layers.tree(LayerId(row.storage)) if row.storage else ""
    moved = []
    with boxparts.undisturbed(box):
        for part in boxparts.copied(box.row.spec):
            waits, is_part = not fs.is_missing(f"{incoming}/{part}"), not fs.is_missing(f"{stored}/{part}")
            if waits or not is_part:
                moved.append(apart.discard(f"{box.directory}/{part}", trash))
            if waits:
                os.makedirs(os.path.dirname(f"{box.directory}/{part}"), 0o711, exist_ok=True)
                apart.move(f"{incoming}/{part}", f"{box.directory}/{part}")
        for part in boxparts.uppers(box.row.spec):
            moved.append(apart.discard(f"{box.directory}/{part}", trash))
        boxparts.renew(layers, box.directory, box.row.spec)
        for place in {os.path.dirname(f"{box.directory}/{part}") for part in boxparts.copied(box.row.spec)}:
            if not fs.is_missing(place):
                fs.sync_directory(place)
    return moved

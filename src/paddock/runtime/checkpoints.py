"""Checkpoints: a state of a box that it can be put back to, and that other boxes can start from.

Theory. A checkpoint is layers. What a box changed in its home, and in its root if it has one of its own, is frozen by a
rename, whatever its size: the directory becomes a layer of the store, the box goes on above it with an empty one. Its
review or clone of the workspace is copied into a layer of its own: the host reads and writes there, so it must stay one
plain tree. A live workspace is the user's own and in no checkpoint.

Each step is written down before it is taken: freezing.py and restoring.py say how, settling.py finishes what a crash
left.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import UserError
from paddock.images import sizes
from paddock.images.layers import LayerId, Layers
from paddock.model import WorkspaceMode
from paddock.reports import CheckpointInfo
from paddock.runtime import apart, boxparts, records, space

if TYPE_CHECKING:
    from paddock.images.leases import Lease
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow


async def find(runtime: Runtime, word: str) -> tuple[Box, CheckpointRow]:
    """By BOX@NAME."""
    name, _, wanted = word.partition("@")
    box = runtime.find(name)
    return box, await find_of(runtime, box, wanted)


async def find_of(runtime: Runtime, box: Box, wanted: str) -> CheckpointRow:
    """By name or id; as it stays only while the caller holds the box's lock."""
    found = [row for row in await runtime.register.checkpoints(box) if wanted in {row.name, row.id}]
    if not found:
        hint = f"`paddock checkpoint ls {box.name}` lists them"
        raise UserError(f"{box.name} has no checkpoint {wanted[:80]!r}", hint=hint, code="no-checkpoint")
    return found[0]


async def listed(runtime: Runtime, box: Box | None = None) -> list[CheckpointInfo]:
    """Oldest first, with what they take of the disk, which may take some seconds to measure, once."""
    rows = [row for row in await runtime.register.checkpoints(box) if row.box in runtime.boxes]
    layers = Layers(runtime.paths.layers)
    return [
        replace(info(runtime.boxes[row.box], row), disk_bytes=size, is_measured=is_whole)
        for row in rows
        for size, is_whole in [await asyncio.to_thread(_size, layers, row)]
    ]


def _size(layers: Layers, row: CheckpointRow) -> tuple[int, bool]:
    """Of what it froze itself."""
    made = [chain[-1] for chain in (row.root, row.home) if chain] + [layer for layer in (row.storage,) if layer]
    found = [sizes.size(layers, LayerId(layer), apart.tree_bytes) for layer in made if layers.has(LayerId(layer))]
    return sum(size for size, _ in found), all(is_whole for _, is_whole in found) and len(found) == len(made)


def info(box: Box, row: CheckpointRow) -> CheckpointInfo:
    held = tuple(dict.fromkeys(part.partition("/")[0] for part in (*boxparts.copied(box.row.spec), boxparts.HOME)))
    return CheckpointInfo(
        box=box.name,
        name=row.name,
        id=row.id,
        created_at=row.created_at,
        parts=(
            *(("root",) if row.root else ()),
            *held,
            *(("workspace",) if has_workspace(box, row) else ()),
            *(("memory",) if row.memory else ()),
        ),
    )


def has_workspace(box: Box, row: CheckpointRow) -> bool:
    """Whether a copy of a live one is in it: of such a box nothing else is copied."""
    return box.row.spec.mode is WorkspaceMode.LIVE and bool(row.storage)


def keep(layers: Layers, lease: Lease, row: CheckpointRow) -> None:
    layers.require(lease, (layer for layer in row.layers if not layer.startswith("/")))


def check(box: Box) -> None:
    boxparts.require_settled(box)
    if box.row.spec.ephemeral or not records.has_run(box.directory):
        hint = "a checkpoint keeps what a box did, and it stays in the box: make one that stays, and run something"
        raise UserError(f"the box {box.name!r} has done nothing to keep", hint=hint, code="nothing")


async def rest(runtime: Runtime, box: Box, *, stop: bool) -> None:
    """End a box that nothing runs in, or that may be stopped: who runs would go on writing into the layer."""
    check(box)
    await be_still(runtime, box, stop=stop)


async def be_still(runtime: Runtime, box: Box, *, stop: bool) -> None:
    """The same, whatever lies in its directory."""
    if box.handle is not None and not stop and not await asyncio.to_thread(box.handle.is_idle):
        raise UserError(
            f"a command is running in {box.name!r}", hint="wait for it, or end it with --stop", code="running"
        )
    await runtime.lifetimes.end(box, grace_s=limits.STOP_GRACE_S if stop else 0.0)


async def remove(runtime: Runtime, word: str) -> CheckpointInfo:
    """Boxes that were made of it, and its own, keep what they stand on."""
    box, row = await find(runtime, word)
    async with box.lock:
        boxparts.require_settled(box)  # it may be what the box is to be
        await runtime.register.drop_checkpoint(box, row.id)
    await space.prune(runtime)
    return info(box, row)

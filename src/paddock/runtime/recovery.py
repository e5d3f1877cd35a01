"""What a new daemon does before it serves: find the boxes an earlier one left, and clear away what nobody owns."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from paddock import fs
from paddock.model import BoxState
from paddock.runtime.box import Box

if TYPE_CHECKING:
    from paddock.runtime.core import Runtime
    from paddock.store import Store

log = logging.getLogger(__name__)


async def recover(runtime: Runtime, store: Store) -> None:
    rows, damaged = store.load()
    for damage in damaged:
        runtime.repairs.append(f"box {damage.name}: its record is damaged ({damage.problem}); left as it is")
    for row in rows:
        box = Box(row, runtime.directory(row.id))
        runtime.boxes[row.id] = box
        await _revive(runtime, store, box)
    _clear_strays(runtime, {*runtime.boxes, *(damage.id for damage in damaged)})


async def _revive(runtime: Runtime, store: Store, box: Box) -> None:
    engine = runtime.engine(box)
    running = box.row.state is BoxState.RUNNING
    if not running and not _has_socket(box):
        if box.row.spec.ephemeral:
            await _drop(runtime, store, box, "its run never began")
        return
    handle = engine.adopt(box.placement, box.row.evidence if running else None)
    if handle is not None:
        if not running:
            box.row = store.set_state(box.row, BoxState.RUNNING, "", handle.evidence)
            runtime.repairs.append(f"box {box.name}: was running without a record; taken over")
        runtime.hold(box, handle)
        runtime.watch.set_active(box.row.id, active=True)  # what an earlier daemon started may still run in it
        return
    engine.clean(box.placement)
    if box.row.spec.ephemeral:
        await _drop(runtime, store, box, "its run is over")
    elif running:
        box.row = store.set_state(box.row, BoxState.STOPPED, "")
        runtime.repairs.append(f"box {box.name}: ended while no daemon ran; marked stopped")


async def _drop(runtime: Runtime, store: Store, box: Box, why: str) -> None:
    store.remove(box.row.id)
    del runtime.boxes[box.row.id]
    runtime.repairs.append(f"box {box.name}: {why}; removed")


def _clear_strays(runtime: Runtime, known: set[str]) -> None:
    """Directories without a row: a create that was never acknowledged, or a removal that was."""
    for name in os.listdir(runtime.paths.boxes):
        if name not in known:
            fs.discard_tree(f"{runtime.paths.boxes}/{name}", runtime.paths.trash)
    runtime.later(asyncio.to_thread(_empty, runtime.paths.trash), "empty trash")


def _empty(trash: str) -> None:
    for name in os.listdir(trash):
        fs.remove_tree(f"{trash}/{name}")


def _has_socket(box: Box) -> bool:
    return os.path.lexists(f"{box.directory}/run/init.sock")

"""After a crash: a checkpoint or restore that was under way is finished, or has not been."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.container.removal import remove_tree
from paddock.errors import PaddockError
from paddock.runtime import boxparts, freezing, restoring
from paddock.runtime.boxparts import INCOMING

if TYPE_CHECKING:
    from paddock.runtime.core import Runtime
    from paddock.store import Store


async def settle(runtime: Runtime, store: Store) -> None:
    """Nobody waits for what cannot be written."""
    rows = {row.id: row for row in store.checkpoints()}
    put_back = store.restores()
    begun = {row.box: row for row in rows.values() if not row.is_whole}
    passing = [row for row in rows.values() if freezing.is_passing(row)]  # nobody waits for what they were for
    for box in list(runtime.boxes.values()):
        try:
            if box.row.id in begun:
                await freezing.settle(runtime, box, begun[box.row.id])
            if box.row.id in put_back:
                row = rows[put_back[box.row.id]]
                await restoring.finish(runtime, box, row)
                runtime.repairs.append(f"box {box.name}: restored to {row.name}")
            elif not fs.is_missing(f"{box.directory}/{INCOMING}"):
                await asyncio.to_thread(remove_tree, f"{box.directory}/{INCOMING}")
            await boxparts.complete(runtime.paths.layers, box)
            for row in (row for row in passing if row.box == box.row.id):
                await runtime.register.drop_checkpoint(box, row.id)
        except (OSError, PaddockError) as error:
            runtime.repairs.append(f"box {box.name}: a checkpoint or restore that was under way: {error}")

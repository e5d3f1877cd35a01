"""Leases of layers in the event loop, which never waits for the store's lock.

Whoever publishes a layer holds that lock while the disk takes its names, and a box can keep a disk busy.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from paddock.readiness import to_its_end
from paddock.runtime import checkpoints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from paddock.images.layers import Layers
    from paddock.images.leases import Lease
    from paddock.store import CheckpointRow


@contextlib.asynccontextmanager
async def held(layers: Layers, row: CheckpointRow | None = None) -> AsyncIterator[Lease]:
    """As Layers.lease; with what a checkpoint is made of, or Unavailable if some of that is gone."""
    taken = contextlib.ExitStack()
    try:
        lease = await to_its_end(asyncio.to_thread(taken.enter_context, layers.lease()))
        if row is not None:
            await to_its_end(asyncio.to_thread(checkpoints.keep, layers, lease, row))
        yield lease
    finally:
        await to_its_end(asyncio.to_thread(taken.close))

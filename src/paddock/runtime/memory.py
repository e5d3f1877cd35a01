"""What runs in a box, kept with its files where the engine can: saved before they are frozen, and begun from again.

A box that is saved has ended. It goes on from what was saved, in its own place or in that of a fork; if it cannot, its
files are what they were, and it starts without what ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.engines.container import gvisor
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images.layers import LayerId, Layers
from paddock.runtime import channels, commands, journals
from paddock.runtime.box import Ending
from paddock.runtime.endings import KILLED

if TYPE_CHECKING:
    from paddock.engines.base import Engine
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow

_GIVE_BACK_S: Final = 5.0


async def save(runtime: Runtime, box: Box, *, stop: bool) -> str:
    """Where what runs in a box was saved, which has ended with that; empty when nothing was: it may be stopped."""
    held = box.handle
    if stop or held is None or box.row.spec.runtime != gvisor.NAME or await asyncio.to_thread(held.is_idle):
        return ""
    box.verdict = Ending(reason="", exit_code=KILLED)
    try:
        saved = await runtime.engine(box).save(box.placement)
    except Unavailable as error:
        if box.handle is held and not held.ended():
            box.verdict = None
            await _give_back_journals(runtime, box)
        hint = error.hint or "wait for what runs in it, or end it with --stop"
        raise UserError(error.message, hint=hint, code="running") from error
    await box.ended.wait()
    return saved


async def go_on(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    """Begin a box, whose lock the caller holds, with what ran when the checkpoint was made."""
    if row.memory:
        await _begin(runtime, box, Layers(runtime.paths.layers).tree(LayerId(row.memory)))


async def go_on_after(runtime: Runtime, box: Box, saved: str, layer: str) -> None:
    """After a freeze that failed, or was not: wherever it lies now."""
    layers = Layers(runtime.paths.layers)
    if not fs.is_missing(saved):
        await _begin(runtime, box, saved)
    elif layer and layers.has(LayerId(layer)):
        await _begin(runtime, box, layers.tree(LayerId(layer)))


async def _begin(runtime: Runtime, box: Box, memory: str) -> None:
    box.memory = memory
    try:
        await runtime.lifetimes.begin(box)
    finally:
        box.memory = ""
    await _give_back_journals(runtime, box)


async def _give_back_journals(runtime: Runtime, box: Box) -> None:
    """To commands that go on, and to those that ended while they had none. What init says of them is the box's word,
    and whether it says anything: its box is locked meanwhile.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GIVE_BACK_S):
            await _give_back_all(runtime, box)


async def _give_back_all(runtime: Runtime, box: Box) -> None:
    engine = runtime.engine(box)
    running = await channels.running_ids(engine, box)
    known = {row.id for row in await runtime.register.jobs(box)}
    for job in running | {job for job in known if journals.state(box.directory, job).running}:
        with contextlib.suppress(PaddockError):
            await _give_back(engine, box, job, is_known=job in known)


async def _give_back(engine: Engine, box: Box, job: str, *, is_known: bool) -> None:
    """Nothing, where there is no such job, as in a fork: then init keeps no output for it."""
    with contextlib.ExitStack() as opened:
        channel = opened.enter_context(channels.connect(engine, box))
        fds = journals.open_files(box.directory, job, os.O_RDWR) if is_known else []
        for fd in fds:
            opened.callback(os.close, fd)
        await channels.send(box, channel, {"op": "journal", "id": job}, fds)
        await commands.ask_first(channel)

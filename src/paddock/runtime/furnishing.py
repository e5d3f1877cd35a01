"""What an agent's box is given before each of its starts, while nothing of it runs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock.runtime import belongings, boxparts, homes, mcpsockets, seeding, tooling

if TYPE_CHECKING:
    from paddock.agents import Agent
    from paddock.model import Mount
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.runtime.homes import Home


async def furnish(runtime: Runtime, box: Box) -> None:
    await boxparts.complete(runtime.paths.layers, box)
    agent = box.agent
    tooling.take(box, agent, runtime.paths)
    if not agent.plain or box.row.spec.mcp:
        mounts, notes = await asyncio.to_thread(_furnish, runtime, box, agent)
        box.view += mounts
        box.notes += notes
        belongings.sweep(runtime)


def foreseen(runtime: Runtime, box: Box) -> tuple[Mount, ...]:
    """What a box that does not run would be shown of its user's own."""
    settings = belongings.Settings(box.row.spec, box.agent, box.directory, _home(runtime, box))
    return (*settings.mounts(), *mcpsockets.prepare(box.row.spec, box.directory))


def _home(runtime: Runtime, box: Box) -> Home:
    home = homes.of(box.directory, box.row.spec, runtime.paths.layers)
    os.makedirs(home.upper, 0o700, exist_ok=True)
    return home


def _furnish(runtime: Runtime, box: Box, agent: Agent) -> tuple[tuple[Mount, ...], list[str]]:
    """What the box is shown besides, and what its user should know."""
    spec = box.row.spec
    taken = belongings.take_state(runtime, box)
    settings = belongings.Settings(spec, agent, box.directory, _home(runtime, box))
    for one in agent.seed:
        seeding.seed(settings.root_of(one.path), one, spec.workspace, runtime.environment(box))
    unlisted = belongings.list_servers(runtime, box, agent, settings)
    mounts = (*settings.mounts(), *mcpsockets.prepare(spec, box.directory))
    return mounts, [note for note in (taken, *settings.notes, unlisted) if note]

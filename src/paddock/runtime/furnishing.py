"""What an agent's box is given before each of its starts, while nothing of it runs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock import agents
from paddock.runtime import seeding, tooling

if TYPE_CHECKING:
    from paddock.agents import Agent
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime


def agent_of(box: Box) -> Agent:
    return agents.of(box.row.spec.agent, box.row.spec.definition)


async def furnish(runtime: Runtime, box: Box) -> None:
    agent = agent_of(box)
    tooling.take(box, agent, runtime.paths)
    if not agent.plain:
        await asyncio.to_thread(_furnish, runtime, box, agent)


def _furnish(runtime: Runtime, box: Box, agent: Agent) -> None:
    home = f"{box.directory}/home"
    os.makedirs(home, 0o700, exist_ok=True)
    seeding.seed(home, agent.seed, box.row.spec.workspace, runtime.environment(box))

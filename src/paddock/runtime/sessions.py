"""A run of a box's agent: its command line, and the command that it is."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents
from paddock.agents import Turn
from paddock.runtime import execution, runs

if TYPE_CHECKING:
    import socket

    from paddock.agents import Agent
    from paddock.model import ExecSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime


async def begin(runtime: Runtime, box: Box, turn: Turn, spec: ExecSpec) -> tuple[str, socket.socket, ExecSpec]:
    """Start the agent, or return to the terminal where it waits; its job, its channel and the command."""
    agent = box.agent
    spec = replace(spec, argv=(program(agent), *agents.compose(agent, turn)))
    again = spec.tty is not None and not spec.detach and turn == Turn()
    if again and (waiting := await execution.waiting(runtime, box)):
        return *waiting, spec
    if agent.plain:
        return *await execution.start(runtime, box, spec), spec
    return *await runs.launch(runtime, box, spec, turn), spec


def attached(spec: ExecSpec, turn: Turn) -> ExecSpec:
    """Without a terminal an agent that was given its prompt reads nothing: some would wait for an end of input."""
    if turn.headless and turn.prompt:
        return replace(spec, tty=None, stdin=False)
    return replace(spec, keep=spec.tty is not None)


def program(agent: Agent) -> str:
    """Boxes have the host's programs; one that only the box has is found there."""
    if agent.fallback and not os.access(f"/bin/{agent.program}", os.X_OK):
        return agent.fallback
    return agent.program

"""A run of an agent as its user said it, from its words to its command, for a client that asks once.

What is here goes well, or is not begun: a name that is no agent of ours, words that make no run, a key that is not in
the store, a program that was never asked what it takes. All that is for the client to go through step by step, as it
does with every other run; so each question and each refusal has one place.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paddock import agents, tools
from paddock.agents import Agent, Turn
from paddock.errors import PaddockError
from paddock.model import BoxRequest, EngineName, ExecSpec, SecretUse
from paddock.runtime import sessions, tooling
from paddock.secrets import store as secret_store
from paddock.secrets import stored

if TYPE_CHECKING:
    import socket

    from paddock.paths import Paths
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.secrets.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    request: BoxRequest
    exec: ExecSpec  # with a terminal if there is one; its words are not known yet
    words: tuple[str, ...] = ()  # after `--`
    ask: bool = False
    model: str = ""
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What there is nothing against. `said` is for the user, and grows while the plan is carried out."""

    agent: Agent
    turn: Turn
    request: BoxRequest
    had: tuple[SecretUse, ...] | None  # of the box that there is
    said: list[str] = field(default_factory=list)


async def planned(runtime: Runtime, wanted: Wanted) -> Plan | None:
    """None if it is to be gone through step by step. Nothing is made or changed yet."""
    request = wanted.request
    is_plain = not request.definition and not request.secrets
    if not is_plain or request.agent not in agents.built_in() or request.agent in runtime.register.taken():
        return None
    box = runtime.register.same(request)
    if box is not None and box.row.spec.ssh_keys:
        return None  # the caller's ssh-agent may be another one now
    try:
        return await asyncio.to_thread(_plan, runtime.paths, wanted, box.row.spec.secrets if box else None)
    except PaddockError:
        return None


def _plan(paths: Paths, wanted: Wanted, had: tuple[SecretUse, ...] | None) -> Plan | None:
    agent = agents.of(wanted.request.agent, "")
    turn = _turn(agent, wanted)
    if turn is None or not _is_there(agent, turn, paths, wanted.request):
        return None
    store = secret_store.opened(paths.secrets, os.environ)
    names = _keys(agent, store)
    found = [kept for name in names or () if (kept := stored.use(store, name))]
    uses = tuple(use for use, _ in found)
    if names is None or any(stored.variable(store, use) for use in (*(had or ()), *uses)):
        return None
    said = [stored.said(use, bound) for use, bound in found]
    return Plan(agent=agent, turn=turn, request=replace(wanted.request, secrets=uses), had=had, said=said)


def _turn(agent: Agent, wanted: Wanted) -> Turn | None:
    """None where something is missing that the client has, or where it has to say what is wrong."""
    said = agents.split(agent, wanted.words)
    headless = wanted.json or wanted.exec.tty is None
    if agent.plain:
        is_agents = wanted.ask or wanted.model or wanted.json
        return None if is_agents else Turn(words=said.words, headless=headless)
    prompt = said.prompt
    if prompt is None and not headless:
        prompt = ""
    elif prompt is None or prompt == "-" or not prompt.strip() or "\0" in prompt:
        return None
    return Turn(
        words=said.words,
        prompt=prompt,
        headless=headless,
        ask=wanted.ask,
        model=wanted.model,
        json=wanted.json,
        resume=said.resume,
    )


def _is_there(agent: Agent, turn: Turn, paths: Paths, request: BoxRequest) -> bool:
    argv = agents.compose(agent, turn)
    if agent.plain or agent.program.startswith("/"):
        return True
    if request.engine is EngineName.CONTAINER and tools.tool_of(agent, paths) is None:
        return True  # it is the template's, or it is missed when it is called
    return tooling.is_known(agent, paths, (request.caller_path, request.caller_home), argv)


def _keys(agent: Agent, store: Store) -> tuple[str, ...] | None:
    """Which of an agent's keys are lent; None if that depends on what the caller's environment has."""
    kept = tuple(name for name in agent.keys.any if store.find(name))
    if agent.keys.lend == "all":
        return kept if len(kept) == len(agent.keys.any) else None
    return kept[:1] if kept or not agent.keys.any else None


async def begin(runtime: Runtime, plan: Plan, wanted: Wanted) -> tuple[Box, str, socket.socket]:
    """The box of the agent and the directory, made if there is none, and the agent's command in it."""
    box, is_new = await runtime.open(plan.request)
    if not is_new and plan.had is not None:
        plan.said.extend(stored.said_new(use, box.name) for use in plan.request.secrets if use not in plan.had)
    job, channel, _ = await sessions.begin(runtime, box, plan.turn, sessions.attached(wanted.exec, plan.turn))
    return box, job, channel

"""The daemon's verb about tools; who installs and removes them does it in a process of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import agents
from paddock.daemon.answer import Answer
from paddock.runtime import tooling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime

    Verb = Callable[[Runtime, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    agent: str
    definition: str
    caller_path: str
    caller_home: str
    argv: tuple[str, ...]  # of the run


async def program(runtime: Runtime, args: Program) -> Answer:
    """Whether it is known that an agent's program is there and takes these words; else it has to be asked."""
    agent = agents.of(args.agent, args.definition)
    caller = args.caller_path, args.caller_home
    return Answer(result=await asyncio.to_thread(tooling.is_known, agent, runtime.paths, caller, args.argv))


async def users(runtime: Runtime, args: Tree) -> Answer:
    return Answer(items=tooling.users(runtime.boxes.values(), args.tree))


VERBS: dict[str, tuple[type, Verb]] = {"program": (Program, program), "tool_users": (Tree, users)}

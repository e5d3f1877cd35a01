"""The daemon's verbs about secrets and what was spent; api.py has the others. No answer has a value in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer
from paddock.model import Budget, SecretUse
from paddock.runtime.credentials import note_wanting, values_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lend:
    box: str
    uses: tuple[SecretUse, ...] = ()
    given: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAgent:
    box: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    box: str  # empty: all


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudget:
    box: str
    budget: Budget


async def changed(runtime: Runtime, args: Changed) -> Answer:
    return Answer(result={"boxes": await runtime.secrets_changed(args.names)})


async def lend(runtime: Runtime, args: Lend) -> Answer:
    await runtime.lend(runtime.find(args.box), args.uses, values_of(args.given))
    return Answer()


async def wants(runtime: Runtime, box: Box, given: dict[str, str], *, asked: bool) -> Answer | None:
    """Before a command: what the caller can be asked for, if it was not. A daemon that is new has no values of shells.

    What the caller does not have either is said with the command.
    """
    if not box.row.spec.secrets:
        return None
    if given:
        await runtime.lend(box, (), values_of(given))
    wanting = await asyncio.to_thread(runtime.credentials.wanting, box)
    if wanting and not asked:
        return Answer(result={"wants": wanting})
    note_wanting(box, wanting)
    return None


async def budget(runtime: Runtime, args: SetBudget) -> Answer:
    await runtime.set_budget(runtime.find(args.box), args.budget)
    return Answer()


async def agent(runtime: Runtime, args: SetAgent) -> Answer:
    await runtime.set_agent(runtime.find(args.box), args.path)
    return Answer()


async def usage(runtime: Runtime, args: Usage) -> Answer:
    """Of a box, or of one that is gone by the name it had."""
    reports = await asyncio.to_thread(runtime.usages.all)
    if args.box:
        reports = [report for report in reports if args.box in (report.name, report.box)]
        reports = reports or [runtime.usages.of(runtime.find(args.box))]
    return Answer(items=tuple(map(codec.to_wire, reports)))


async def spent(runtime: Runtime, args: Usage) -> Answer:
    """Why requests of a box are refused since it was started, by its id; empty if they are not. It may be gone."""
    return Answer(result=await runtime.background.write(runtime.usages.over, args.box))  # after what is being written


VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "secrets_changed": (Changed, changed),
    "secrets_lend": (Lend, lend),
    "budget": (SetBudget, budget),
    "ssh_agent": (SetAgent, agent),
    "usage": (Usage, usage),
    "spent": (Usage, spent),
}

"""The daemon's verbs about networks and policies; api.py has the others, and how verbs are called."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from paddock import codec
from paddock.daemon.answer import Answer, Nothing
from paddock.model import Network, NetworkRule
from paddock.runtime import rulings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class MaybeNamed:
    box: str  # empty: every new box, or all boxes


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    box: str
    change: Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    target: str
    box: str
    method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRules:
    rules: tuple[NetworkRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRules:
    patterns: tuple[str, ...]
    box: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    ask: str
    decision: Literal["once", "box", "always", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    box: str
    format: Literal["paddock", "docker", "agent-sandbox"]


async def network(runtime: Runtime, args: Change) -> Answer:
    return Answer(result=codec.to_wire(await rulings.change(runtime, args.box, args.change)))


async def network_logs(runtime: Runtime, args: MaybeNamed) -> Answer:
    found = await asyncio.to_thread(rulings.logs, runtime, args.box)
    return Answer(items=tuple(codec.to_wire(log) for log in found))


async def attend(runtime: Runtime, args: MaybeNamed) -> Answer:
    box = runtime.find(args.box)
    attendance = rulings.networks(runtime).attendance
    ours, theirs = socket.socketpair()
    runtime.background.later(attendance.attend(box, ours), f"ask about {box.name}")
    return Answer(fds=(theirs.detach(),))


async def policy_show(runtime: Runtime, args: MaybeNamed) -> Answer:
    return Answer(result=codec.to_wire(rulings.show(runtime, args.box)))


async def policy_check(runtime: Runtime, args: Check) -> Answer:
    return Answer(result=codec.to_wire(rulings.check(runtime, args.box, args.target, args.method)))


async def policy_user(runtime: Runtime, args: UserRules) -> Answer:
    return Answer(result=codec.to_wire(await rulings.add_for_user(runtime, args.rules)))


async def policy_rm(runtime: Runtime, args: RemoveRules) -> Answer:
    return Answer(result=codec.to_wire(await rulings.remove(runtime, args.box, args.patterns)))


async def policy_suggest(runtime: Runtime, args: MaybeNamed) -> Answer:
    return Answer(items=tuple(await asyncio.to_thread(rulings.suggest, runtime, args.box)))


async def policy_pending(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(codec.to_wire(one) for one in await rulings.pending(runtime)))


async def policy_answer(runtime: Runtime, args: Decide) -> Answer:
    await rulings.answer(runtime, args.ask, args.decision)
    return Answer()


async def policy_approve(runtime: Runtime, args: MaybeNamed) -> Answer:
    return Answer(items=tuple(await rulings.approve(runtime, args.box)))


async def policy_export(runtime: Runtime, args: Export) -> Answer:
    text, notes = rulings.export(runtime, args.box, args.format)
    return Answer(result={"text": text, "notes": list(notes)})


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "network": (Change, network),
    "network_logs": (MaybeNamed, network_logs),
    "attend": (MaybeNamed, attend),
    "policy_show": (MaybeNamed, policy_show),
    "policy_check": (Check, policy_check),
    "policy_user": (UserRules, policy_user),
    "policy_rm": (RemoveRules, policy_rm),
    "policy_suggest": (MaybeNamed, policy_suggest),
    "policy_pending": (Nothing, policy_pending),
    "policy_answer": (Decide, policy_answer),
    "policy_approve": (MaybeNamed, policy_approve),
    "policy_export": (Export, policy_export),
}

"""The daemon's verbs about runs of agents; api.py has the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer, Nothing
from paddock.runtime import runlist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    box: str  # empty: all
    limit: int = 0  # zero: as many as there are


@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    run: str  # its id, or the beginning of it


async def listed(runtime: Runtime, args: Of) -> Answer:
    found = await runlist.listed(runtime, args.box, max(0, args.limit))
    return Answer(items=tuple(map(codec.to_wire, found)))


async def damaged(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=await runlist.damaged(runtime))


async def shown(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await runlist.shown(runtime, args.run)))


async def awaited(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await runlist.awaited(runtime, args.run)))


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "runs": (Of, listed),
    "runs_damaged": (Nothing, damaged),
    "run_show": (One, shown),
    "run_wait": (One, awaited),
}

"""The daemon's verbs about workspaces; api.py has the others.

The changes of a review are read, and brought home, by the process that asks (client/reviewing.py), not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer
from paddock.runtime import departures, homecoming

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    box: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    box: str
    look: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    box: str
    why: str
    places: tuple[str, ...] = ()  # of the workspace, that changed
    more: bool = False  # and others


async def left(runtime: Runtime, args: Left) -> Answer:
    return Answer(result=codec.to_wire(await departures.left(runtime, args.box, look=args.look)))


async def pending(runtime: Runtime, args: Of) -> Answer:
    return Answer(result=codec.to_wire(runtime.find(args.box).untold.peek()))


async def touched(runtime: Runtime, args: Touched) -> Answer:
    runtime.workspaces.staleness.touched(runtime.find(args.box), args.why, args.places, more=args.more)
    return Answer()


async def git_fetch(runtime: Runtime, args: Of) -> Answer:
    return Answer(result=codec.to_wire(await homecoming.fetch(runtime, args.box)))


async def git_log(runtime: Runtime, args: Of) -> Answer:
    return Answer(items=tuple(codec.to_wire(one) for one in await homecoming.commits(runtime, args.box)))


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "left": (Left, left),
    "pending": (Of, pending),
    "touched": (Touched, touched),
    "git_fetch": (Of, git_fetch),
    "git_log": (Of, git_log),
}

"""The daemon's verbs about checkpoints and layers; api.py has the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer, Nothing
from paddock.runtime import checkpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    box: str
    name: str = ""
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    box: str  # empty: all


@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    checkpoint: str  # BOX@NAME
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    source: str  # BOX or BOX@NAME
    count: int = 1
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    one: str  # each BOX or BOX@NAME
    other: str


async def _create(runtime: Runtime, args: Make) -> Answer:
    made = await checkpoints.create(runtime, runtime.find(args.box), args.name, stop=args.stop)
    return Answer(result=codec.to_wire(made))


async def _ls(runtime: Runtime, args: Of) -> Answer:
    found = await checkpoints.listed(runtime, runtime.find(args.box) if args.box else None)
    return Answer(items=tuple(map(codec.to_wire, found)))


async def _restore(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await checkpoints.restore(runtime, args.checkpoint, stop=args.stop)))


async def _fork(runtime: Runtime, args: Fork) -> Answer:
    made = await checkpoints.fork(runtime, args.source, args.count, stop=args.stop)
    return Answer(items=tuple(codec.to_wire(runtime.brief(box)) for box in made))


async def _diff(runtime: Runtime, args: Two) -> Answer:
    found, whole = await checkpoints.difference(runtime, args.one, args.other)
    return Answer(result={"differences": [codec.to_wire(item) for item in found], "is_whole": whole})


async def _rm(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await checkpoints.remove(runtime, args.checkpoint)))


async def _prune(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(await checkpoints.prune(runtime)))


async def _df(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(map(codec.to_wire, await checkpoints.usage(runtime))))


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "checkpoint_create": (Make, _create),
    "checkpoint_ls": (Of, _ls),
    "checkpoint_restore": (One, _restore),
    "checkpoint_fork": (Fork, _fork),
    "checkpoint_diff": (Two, _diff),
    "checkpoint_rm": (One, _rm),
    "checkpoint_prune": (Nothing, _prune),
    "df": (Nothing, _df),
}

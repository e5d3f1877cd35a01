"""The daemon's verbs about checkpoints and layers; api.py has the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer, Nothing
from paddock.model import BoxRequest
from paddock.runtime import (
    checkpointfiles,
    checkpoints,
    differing,
    forking,
    freezing,
    livecopies,
    quotas,
    restoring,
    space,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    box: str
    name: str = ""
    stop: bool = False
    with_workspace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    box: str  # empty: all


@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    checkpoint: str  # BOX@NAME
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    checkpoint: str  # BOX@NAME
    place: str  # a directory that is not there yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    source: str  # BOX or BOX@NAME
    count: int = 1
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    one: str  # each BOX or BOX@NAME
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    checkpoint: str  # BOX@NAME
    path: str  # an empty file


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    path: str
    request: BoxRequest


async def _export(runtime: Runtime, args: Export) -> Answer:
    return Answer(result=await checkpointfiles.write(runtime, args.checkpoint, args.path))


async def _import(runtime: Runtime, args: Import) -> Answer:
    return Answer(result=codec.to_wire(runtime.info(await checkpointfiles.take(runtime, args.path, args.request))))


async def _create(runtime: Runtime, args: Make) -> Answer:
    box = runtime.find(args.box)
    made = await freezing.create(runtime, box, args.name, stop=args.stop, with_workspace=args.with_workspace)
    return Answer(result=codec.to_wire(made))


async def _ls(runtime: Runtime, args: Of) -> Answer:
    found = await checkpoints.listed(runtime, runtime.find(args.box) if args.box else None)
    return Answer(items=tuple(map(codec.to_wire, found)))


async def _restore(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await restoring.restore(runtime, args.checkpoint, stop=args.stop)))


async def _workspace(runtime: Runtime, args: Workspace) -> Answer:
    return Answer(result=codec.to_wire(await livecopies.bring(runtime, args.checkpoint, args.place)))


async def _fork(runtime: Runtime, args: Fork) -> Answer:
    made = await forking.fork(runtime, args.source, args.count, stop=args.stop)
    return Answer(items=tuple(codec.to_wire(runtime.brief(box)) for box in made))


async def _diff(runtime: Runtime, args: Two) -> Answer:
    found, whole = await differing.difference(runtime, args.one, args.other)
    return Answer(result={"differences": [codec.to_wire(item) for item in found], "is_whole": whole})


async def _rm(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await checkpoints.remove(runtime, args.checkpoint)))


async def _prune(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(await space.prune(runtime)))


async def _df(runtime: Runtime, _args: Nothing) -> Answer:
    found = await space.usage(runtime)
    wanted = quotas.read(runtime.paths.storage)
    free = quotas.free_bytes(runtime.paths.state)
    items = [codec.to_wire(item) for item in found]
    return Answer(result={"items": items, "free_bytes": free, "total_bytes": wanted.total, "box_bytes": wanted.box})


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "checkpoint_create": (Make, _create),
    "checkpoint_ls": (Of, _ls),
    "checkpoint_restore": (One, _restore),
    "checkpoint_workspace": (Workspace, _workspace),
    "checkpoint_fork": (Fork, _fork),
    "checkpoint_export": (Export, _export),
    "checkpoint_import": (Import, _import),
    "checkpoint_diff": (Two, _diff),
    "checkpoint_rm": (One, _rm),
    "checkpoint_prune": (Nothing, _prune),
    "df": (Nothing, _df),
}

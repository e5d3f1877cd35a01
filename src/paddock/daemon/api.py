"""The daemon's verbs: name, arguments, one runtime call, result. Arguments become a dataclass, strictly, first."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddock import codec, proc
from paddock._version import VERSION
from paddock.agents import Turn
from paddock.daemon import (
    build_api,
    checkpoint_api,
    network_api,
    run_api,
    secret_api,
    start_api,
    template_api,
    tool_api,
    workspace_api,
)
from paddock.daemon.answer import Answer, Nothing
from paddock.errors import UserError
from paddock.model import BoxRequest, ExecSpec, Limits
from paddock.runtime import commands, departures, execution, joblist, sessions, space
from paddock.runtime.credentials import values_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

    Verb = Callable[[Runtime, Any], Awaitable[Answer]]  # Any: the dataclass beside it in VERBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    box: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    request: BoxRequest
    given: dict[str, str] = field(default_factory=dict, repr=False)  # values of secrets, of the caller's environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    request: BoxRequest
    exec: ExecSpec
    given: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    box: str
    exec: ExecSpec
    given: dict[str, str] = field(default_factory=dict, repr=False)
    asked: bool = True  # about variables of the caller's environment that secrets of the box come from


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    box: str
    exec: ExecSpec
    turn: Turn = field(default_factory=Turn)
    given: dict[str, str] = field(default_factory=dict, repr=False)
    asked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    box: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    box: str
    job: str
    signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    box: str
    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    box: str
    grace_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    box: str
    force: bool = False
    reviewed: bool = False  # who asks has looked: a review holds nothing that is not applied
    keep_state: bool = False  # of its agent, for the next box


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    reviewed: tuple[str, ...]  # ids of boxes of which that is so


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    box: str
    set: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


async def _status(runtime: Runtime, _args: Nothing) -> Answer:
    running = sum(box.handle is not None for box in runtime.boxes.values())
    weight = proc.own_weight()
    return Answer(
        result={
            "pid": os.getpid(),
            "version": VERSION,
            "state": runtime.paths.state,
            "socket": f"{runtime.paths.run}/daemon.sock",
            "boxes": len(runtime.boxes),
            "running": running,
            "starting": runtime.lifetimes.starting,
            "gateway_pid": runtime.network.supervisor.pid if runtime.network else None,
            "repairs": runtime.repairs,
            "open_files": weight.open_files,  # both only we can look up: see close_memory
            "memory_bytes": weight.memory_bytes,
        }
    )


async def _shutdown(_runtime: Runtime, _args: Nothing) -> Answer:
    signal.raise_signal(signal.SIGTERM)  # handled by the event loop, after this answer is sent
    return Answer()


async def _ls(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(codec.to_wire(runtime.brief(box)) for box in runtime.register.listed()))


async def _create(runtime: Runtime, args: Create) -> Answer:
    return Answer(result=codec.to_wire(runtime.info(await runtime.create(args.request, values_of(args.given)))))


async def _open(runtime: Runtime, args: Create) -> Answer:
    box, new = await runtime.open(args.request, values_of(args.given))
    return Answer(result={"box": codec.to_wire(runtime.info(box)), "new": new})


async def _run(runtime: Runtime, args: Run) -> Answer:
    box, job, channel = await execution.run(runtime, args.request, args.exec, values_of(args.given))
    # Who asked for a limit is told whether it holds; later there may be no box to ask about.
    info = runtime.brief(box) if args.request.limits == Limits() else runtime.info(box)
    result = {"box": codec.to_wire(info), "job": job, "notes": box.told()}
    return Answer(result=result, fds=(channel.detach(),))


async def _exec(runtime: Runtime, args: Exec) -> Answer:
    box = runtime.find(args.box)
    if wants := await secret_api.wants(runtime, box, args.given, asked=args.asked):
        return wants
    job, channel = await execution.start(runtime, box, args.exec)
    return await _started(runtime, box, job, channel, args.exec)


async def _session(runtime: Runtime, args: Session) -> Answer:
    box = runtime.find(args.box)
    if wants := await secret_api.wants(runtime, box, args.given, asked=args.asked):
        return wants
    job, channel, spec = await sessions.begin(runtime, box, args.turn, args.exec)
    return await _started(runtime, box, job, channel, spec)


async def _started(runtime: Runtime, box: Box, job: str, channel: socket.socket, spec: ExecSpec) -> Answer:
    """A detached command's start is read here; any other channel is handed to the client unread."""
    result = {"box": codec.to_wire(runtime.brief(box)), "job": job, "notes": box.told()}
    if not spec.detach:
        return Answer(result=result, fds=(channel.detach(),))
    with channel:
        commands.expect(await commands.ask_first(channel), "started")
    runtime.background.later(departures.note_job(runtime, box, job), f"wait for {job} in {box.name}")
    return Answer(result=result)


async def _connect(runtime: Runtime, args: Connect) -> Answer:
    box = runtime.find(args.box)
    if box.handle is None:
        raise UserError(f"the box {box.name!r} is not running", hint="its commands have ended", code="not-running")
    _, channel = await execution.channel(runtime, args.box)
    await commands.send(channel, {"op": "connect", "id": args.job}, [])
    return Answer(result={"box": codec.to_wire(runtime.brief(box)), "job": args.job}, fds=(channel.detach(),))


async def _signal(runtime: Runtime, args: Signal) -> Answer:
    await execution.signal(runtime, args.box, args.job, args.signal)
    return Answer()


async def _channel(runtime: Runtime, args: Named) -> Answer:
    box, channel = await execution.channel(runtime, args.box)
    return Answer(result=codec.to_wire(runtime.brief(box)), fds=(channel.detach(),))


async def _inspect(runtime: Runtime, args: Named) -> Answer:
    return Answer(result=codec.to_wire(runtime.inspect(args.box)))


async def _plan(runtime: Runtime, args: Named) -> Answer:
    return Answer(items=await runtime.describe(args.box))


async def _stop(runtime: Runtime, args: Stop) -> Answer:
    box = runtime.find(args.box)
    await runtime.stop(args.box, args.grace_s)
    return Answer(result=codec.to_wire(await departures.stopped(runtime, box)))


async def _rm(runtime: Runtime, args: Remove) -> Answer:
    info = await runtime.remove(args.box, force=args.force, reviewed=args.reviewed, keep_state=args.keep_state)
    return Answer(result=codec.to_wire(info))


async def _reset(runtime: Runtime, _args: Nothing) -> Answer:
    gone = await runtime.reset()
    await space.prune(runtime)
    return Answer(items=tuple(map(codec.to_wire, gone)))


async def _prune(runtime: Runtime, args: Prune) -> Answer:
    gone = await runtime.prune(args.reviewed)
    await space.prune(runtime)
    return Answer(items=tuple(map(codec.to_wire, gone)))


async def _env(runtime: Runtime, args: Env) -> Answer:
    await runtime.set_env(args.box, args.set, args.unset)
    return Answer(result=codec.to_wire(runtime.inspect(args.box)))


async def _jobs(runtime: Runtime, args: Named) -> Answer:
    return Answer(items=tuple(codec.to_wire(job) for job in await joblist.jobs(runtime, args.box)))


async def _logs(runtime: Runtime, args: Logs) -> Answer:
    job, fds = await joblist.log_files(runtime, args.box, args.job)
    return Answer(result=codec.to_wire(job), fds=tuple(fds))


async def _killed(runtime: Runtime, args: Named) -> Answer:
    return Answer(result=await runtime.lifetimes.endings.killed(args.box))


async def _ending(runtime: Runtime, args: Named) -> Answer:
    return Answer(result=codec.to_wire(await runtime.lifetimes.endings.of(args.box)))


VERBS: dict[str, tuple[type, Verb]] = {
    "status": (Nothing, _status),
    "shutdown": (Nothing, _shutdown),
    "ls": (Nothing, _ls),
    "create": (Create, _create),
    "open": (Create, _open),
    "run": (Run, _run),
    "exec": (Exec, _exec),
    "session": (Session, _session),
    "connect": (Connect, _connect),
    "signal": (Signal, _signal),
    "channel": (Named, _channel),
    "inspect": (Named, _inspect),
    "plan": (Named, _plan),
    "stop": (Stop, _stop),
    "rm": (Remove, _rm),
    "reset": (Nothing, _reset),
    "prune": (Prune, _prune),
    "env": (Env, _env),
    "jobs": (Named, _jobs),
    "logs": (Logs, _logs),
    "ending": (Named, _ending),
    "killed": (Named, _killed),
    **build_api.VERBS,
    **checkpoint_api.VERBS,
    **network_api.VERBS,
    **run_api.VERBS,
    **secret_api.VERBS,
    **start_api.VERBS,
    **template_api.VERBS,
    **workspace_api.VERBS,
    **tool_api.VERBS,
}


# Verbs that end with who called them.
LONG = frozenset({"template_load", "template_pull", "template_push", "template_save"})


async def call(runtime: Runtime, verb: str, args: object) -> Answer:
    if verb not in VERBS:
        raise UserError(f"unknown request {verb[:40]!r}", code="unknown-verb")
    kind, action = VERBS[verb]
    return await action(runtime, codec.from_wire(kind, args, verb))

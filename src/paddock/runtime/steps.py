"""A RUN of a Dockerfile: a box of one command on the layers below, what it changed, and what its policy refused.

The box has its root and nothing else: no home, no workspace, no secrets. It is an ephemeral one, so that whatever dies
meanwhile leaves what any run leaves, and recovery ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import frames, fs, limits
from paddock.engines.container import ids
from paddock.engines.process.operations import CA_BUNDLE
from paddock.errors import PaddockError, Unavailable
from paddock.gateway import records
from paddock.gateway.records import Decision, Event
from paddock.model import BoxSpec, EngineName, ExecSpec, ImageRun, Limits, Network
from paddock.policy.suggest import Refused, suggest
from paddock.readiness import within
from paddock.runtime import apart, commands, execution
from paddock.runtime.flags import canonical
from paddock.runtime.policies import of_box

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from paddock.frames import Message
    from paddock.images.build import RunStep
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

    Output = Callable[[int, bytes], Awaitable[None]]  # a kind of frames.py, and bytes of the box's

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GRACE_S: Final = 30.0  # for a box whose command has ended, or should have
_SHUT: Final = '[network]\ndefault = "deny"\n'  # as a project that narrows: RUN --network=none
_REFUSED_MAX: Final = 5
_UNKNOWN: Final = "unknown"  # where a connection says nowhere for whom it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the boxes of a build are made."""

    place: str  # an empty directory of ours
    network: Network
    runtime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    reason: str = ""  # why the box ended, where that was not its command's own doing
    refused: tuple[str, ...] = ()  # patterns that would allow what its policy refused
    why: str = ""  # the policy's reason, where no pattern would


async def run(runtime: Runtime, chain: tuple[str, ...], step: RunStep, way: Way, upper: str, output: Output) -> Ran:
    """What the command changed is at `upper` when this returns, whatever its exit code."""
    box = await runtime.add_step(_spec(chain, way, has_network=step.has_network))

    async def take(ended: Box) -> None:
        place = f"{ended.directory}/root/upper"
        if not fs.is_missing(place):
            await asyncio.to_thread(apart.move, place, upper)

    box.heir = take
    try:
        async with box.lock:
            channel = await execution.start_with(runtime, box, lambda: _message(runtime, box, step))
        with channel:
            code = await _followed(runtime, box, channel, output)
        await _ended(runtime, box)
    except BaseException:
        box.heir = None
        await asyncio.shield(runtime.lifetimes.undo(box))
        raise
    reason = box.ending.reason if box.ending else ""
    refused, why = await asyncio.to_thread(_refused, runtime, box) if code else ((), "")
    return Ran(code=code, reason=reason, refused=refused, why=why)


def _spec(chain: tuple[str, ...], way: Way, *, has_network: bool) -> BoxSpec:
    network = way.network if has_network else Network(project=_SHUT)
    return BoxSpec(
        name="build-step",
        agent="shell",
        engine=EngineName.CONTAINER,
        workspace=way.place,
        workdir="/",
        ephemeral=True,
        bare=True,
        network=canonical(network),
        limits=Limits(wall_s=limits.BUILD_STEP_S),
        layers=chain,
        runtime=way.runtime,
    )


def _message(runtime: Runtime, box: Box, step: RunStep) -> Message:
    trusted = {
        key: value for key, value in runtime.engine(box).environment(box.placement).items() if value == CA_BUNDLE
    }
    has_users = ids.of_caller(box.row.position).count > 1
    user = step.user or "root"
    spec = ExecSpec(
        argv=step.argv,
        env={"PATH": PATH, "HOME": "/root", **trusted, **dict(step.env)},
        cwd=step.workdir,
        user=user if has_users else "",
        main=True,
        timeout_s=limits.BUILD_STEP_S,
    )
    # With one id everybody is whom the box has, as in a run of an image.
    return commands.start_message(spec, commands.new_job_id(), {}, "/", image=ImageRun(user="" if has_users else user))


async def _followed(runtime: Runtime, box: Box, channel: socket.socket, output: Output) -> int:
    """Pass on what the command says, and return its exit code; of a box that ended without one, that of its end."""
    try:
        async with asyncio.timeout(limits.BUILD_STEP_S + _GRACE_S):
            return await _exit_code(channel, output)
    except TimeoutError:
        raise Unavailable("the box of a RUN does not answer", code="no-answer") from None
    except (OSError, PaddockError) as error:
        if isinstance(error, PaddockError) and error.code not in {"gone", "protocol"}:
            raise
        await _ended(runtime, box)
        if box.ending is None:
            raise
        return box.ending.exit_code


async def _exit_code(channel: socket.socket, output: Output) -> int:
    loop = asyncio.get_running_loop()
    decoder = frames.Decoder()
    channel.setblocking(False)
    while data := await loop.sock_recv(channel, limits.FRAME_DATA_BYTES):
        for kind, payload in decoder.feed(data):
            if kind in {frames.STDOUT, frames.STDERR}:
                await output(kind, payload)
            elif kind == frames.MESSAGE:
                message = frames.decode_message(payload)
                if message.get("event") == "started":
                    continue
                code = commands.expect(message, "exit").get("code")
                if type(code) is int and 0 <= code <= 255:
                    return code
                raise Unavailable("the box sent a malformed answer: no exit code", code="protocol")
        await asyncio.sleep(0)  # a flood must not keep the daemon from everything else
    raise Unavailable("the box ended before it answered", code="gone")


async def _ended(runtime: Runtime, box: Box) -> None:
    """A box ends with its command; one that does not is ended, and what it did counts all the same."""
    with contextlib.suppress(TimeoutError):
        await within(box.ended.wait(), _GRACE_S)
    if box in runtime.register and box.handle is not None:
        async with box.lock:
            await runtime.lifetimes.end(box, grace_s=0.0)


def _refused(runtime: Runtime, box: Box) -> tuple[tuple[str, ...], str]:
    if runtime.network is None:
        return (), ""
    denied = [
        one
        for one in records.read(runtime.network.logs.paths(box.row.id))
        if one.event is Event.DECISION and one.decision is Decision.DENY and one.port and one.host != _UNKNOWN
    ]
    found = [Refused(host=one.host, port=one.port) for one in denied]
    allowing = suggest(found, runtime.network.policies.evaluator(*of_box(box)))
    patterns = tuple(one.pattern for one in allowing if one.pattern)[:_REFUSED_MAX]
    return patterns, "" if patterns else next((one.reason for one in denied if one.reason), "")

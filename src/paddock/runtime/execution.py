"""Commands in boxes: each function is one verb of the daemon. What a box says is parsed as hostile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.model import EngineName
from paddock.runtime import channels, commands, journals
from paddock.store import JobRow, now

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from paddock.frames import Message
    from paddock.model import BoxRequest, ExecSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.secrets.value import Secret


async def run(
    runtime: Runtime,
    request: BoxRequest,
    spec: ExecSpec,
    given: Mapping[str, Secret] | None = None,
    place: str = "",
) -> tuple[Box, str, socket.socket]:
    """An ephemeral box around one command; in `place`, if it is to have a directory of ours as its workspace."""
    commands.check_user(spec.user, request.engine)
    box = await runtime.create(replace(request, ephemeral=True), given, place)
    job = commands.new_job_id()
    try:
        spec = replace(spec, main=True, timeout_s=spec.timeout_s or box.row.spec.limits.wall_s)
        _expect_answers(runtime, box, spec)
        async with box.lock:
            channel = await start_with(runtime, box, lambda: _start_message(runtime, box, spec, job))
    except BaseException:
        await runtime.lifetimes.undo(box)
        raise
    return box, job, channel


async def start_with(runtime: Runtime, box: Box, first: Callable[[], Message]) -> socket.socket:
    """Start a box whose first command waits for it, so that neither waits for the other. The caller has its lock."""
    waiting: list[tuple[socket.socket, asyncio.Task[None]]] = []

    def listening() -> None:
        message = first()  # now: its environment names files that were just made
        channel = runtime.engine(box).connect(box.placement)
        send = asyncio.get_running_loop().create_task(commands.send(channel, message, []), name="first command")
        waiting.append((channel, send))

    try:
        await runtime.lifetimes.begin(box, listening)
        runtime.lifetimes.watch.set_active(box.row.id, active=True)
        channel, send = waiting[0]
        await send
    except BaseException:
        for channel, send in waiting:
            send.cancel()
            channel.close()
        raise
    return channel


async def start(
    runtime: Runtime, box: Box, spec: ExecSpec, job: str = "", shown: tuple[str, ...] = ()
) -> tuple[str, socket.socket]:
    """Start a command and hand back its channel; init's answer is the first thing on it.

    `job` is its name if it has one, as a run does; `shown` are its words as the list of jobs keeps them.
    """
    commands.check_user(spec.user, box.row.spec.engine)
    _expect_answers(runtime, box, spec)
    await runtime.lifetimes.start(box)
    runtime.lifetimes.watch.set_active(box.row.id, active=True)
    job = job or commands.new_job_id()
    message = _start_message(runtime, box, spec, job)
    channel = channels.connect(runtime.engine(box), box)
    try:
        if message["journal_bytes"]:
            with commands.journal_files(box.directory, job) as fds:
                await _record(runtime, box, job, shown or commands.argv(spec, box.row.spec.image))
                await _send_recorded(runtime, box, job, channel, message, fds)
        else:
            await channels.send(box, channel, message, [])
    except BaseException:
        channel.close()
        raise
    return job, channel


def _expect_answers(runtime: Runtime, box: Box, spec: ExecSpec) -> None:
    """Someone who runs a command at a terminal can be asked about its connections, from the first one on."""
    if runtime.network is not None and spec.tty is not None:
        runtime.network.attendance.arriving(box)
        arrival = runtime.network.attendance.await_arrival(box)
        runtime.background.later(arrival, f"await who answers for {box.name}")


def _start_message(runtime: Runtime, box: Box, spec: ExecSpec, job: str) -> Message:
    wanted = box.row.spec
    journal_bytes = commands.journal_bytes(wanted.limits)
    image = wanted.image if wanted.engine is EngineName.CONTAINER else None
    return commands.start_message(spec, job, runtime.environment(box), wanted.workdir, journal_bytes, image)


async def _record(runtime: Runtime, box: Box, job: str, argv: tuple[str, ...]) -> None:
    register = runtime.register
    await register.add_job(box, JobRow(id=job, argv=argv, started_at=now()))
    jobs = await register.jobs(box)
    for old in jobs[: -limits.JOBS_KEPT_PER_BOX]:
        if not journals.state(box.directory, old.id).running:
            await register.remove_job(box, old.id)
            journals.remove(box.directory, old.id)


async def _send_recorded(
    runtime: Runtime, box: Box, job: str, channel: socket.socket, message: Message, fds: list[int]
) -> None:
    try:
        await channels.send(box, channel, message, fds)
    except BaseException:
        await runtime.register.remove_job(box, job)
        raise


async def channel(runtime: Runtime, name: str) -> tuple[Box, socket.socket]:
    """A fresh channel to a box's init, for files and process verbs."""
    box = runtime.find(name)
    await runtime.lifetimes.start(box)
    return box, channels.connect(runtime.engine(box), box)


async def waiting(runtime: Runtime, box: Box) -> tuple[str, socket.socket] | None:
    """Attach again to the terminal session that waits in a box, if one does."""
    if box.handle is None:
        return None
    engine = runtime.engine(box)
    for row in await channels.processes(engine, box):
        if row.get("tty") and row.get("clients") == 0:
            found = channels.connect(engine, box)
            await commands.send(found, {"op": "connect", "id": str(row.get("id"))}, [])
            return str(row.get("id")), found
    return None


async def signal(runtime: Runtime, name: str, job: str, number: int) -> None:
    """Send a signal to a command and all its group; never starts a box for it."""
    box = runtime.find(name)
    with channels.connect(runtime.engine(box), box) as found:
        commands.expect(await commands.ask(found, {"op": "signal", "id": job, "signal": number}), "done")

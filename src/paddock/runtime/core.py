"""The composition of store, engines and boxes: every verb of the daemon is one method here.

Rules that hold throughout: a box's row is written before its effect is acknowledged; a box changes state only under its
own lock; what a box says is parsed as hostile; the truth about a running box is its pidfd, never our memory of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paddock import agents, fs, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import (
    BoxId,
    BoxInfo,
    BoxRequest,
    BoxSpec,
    BoxState,
    EngineName,
    ExecSpec,
    Network,
    check_env,
)
from paddock.runtime import commands, departures, journals, records, threads
from paddock.runtime.box import Box, Ending
from paddock.runtime.normalise import normalise, require_same_shape
from paddock.runtime.policies import merge
from paddock.runtime.workspaces import Workspaces
from paddock.store import JobRow, Store, new_row, now

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Mapping
    from concurrent.futures import Future

    from paddock.engines.base import Engine, Handle
    from paddock.frames import Message
    from paddock.paths import Paths
    from paddock.reports import LeaveReport
    from paddock.runtime.network import Networks
    from paddock.watch import Watch

    MakeWatch = Callable[[Callable[[BoxId, str], None]], Watch]

log = logging.getLogger(__name__)
T = TypeVar("T")
_ENDINGS_KEPT = 1024
_KILLED, _TIMED_OUT = 137, 124
_AT_ONCE = 32  # boxes ended side by side: most of it is waiting for the kernel
_RETRY_S = 5.0
_TRASH_PATIENCE_S = 2.0  # how long a daemon that ends waits for files to go; its successor does the rest
_SETTLE_S = 2.0  # a box that is ending has ended by then


class Runtime:
    def __init__(
        self, paths: Paths, store: Store, engines: Mapping[EngineName, Engine], home: str, make_watch: MakeWatch
    ) -> None:
        self.paths = paths
        self.boxes: dict[BoxId, Box] = {}
        self.repairs: list[str] = []  # what recovery found and mended, for doctor
        self.reserved_names: set[str] = set()  # those of boxes whose rows are damaged
        self.reserved_positions: set[int] = set()
        self._store = store
        self.engines = engines
        self._home = home
        self.watch = make_watch(self.condemn)
        self.workspaces = Workspaces(f"{paths.state}/placeholders", self.boxes)
        self.network: Networks | None = None  # without one a box has its loopback and nothing else
        self._endings: dict[str, Ending] = {}
        self.departed: dict[str, LeaveReport] = {}  # what boxes of one command left
        # Making a box works in the event loop for some milliseconds: a hundred at once would delay every answer.
        self._admission = asyncio.Semaphore(limits.STARTS_MAX)
        self.starting = 0  # boxes that are being started or wait for their turn
        # One thread for the store: a slow disk must not stop the event loop, and writes stay in order.
        self._writer = threads.pool(1, "store")
        self._sweeper = threads.pool(2, "trash")
        self._naming = asyncio.Lock()  # a name or an identity is looked up and taken in one step
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeps: set[asyncio.Future[None]] = set()

    def __repr__(self) -> str:
        return f"<Runtime {len(self.boxes)} boxes>"

    # -- plumbing ------------------------------------------------------------------------------------------------------

    async def write(self, action: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, action, *args)

    def _queue(self, action: Callable[..., object], *args: object) -> None:
        """Write in order, but wait for nothing; a failure is only logged."""
        self._writer.submit(action, *args).add_done_callback(_log_failure)

    def later(self, coroutine: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("%s failed", task.get_name(), exc_info=task.exception())

    def sweep(self, action: Callable[[str], None], path: str) -> None:
        """Remove files beside everything else; what does not get done the next daemon finds in the trash."""
        future = asyncio.get_running_loop().run_in_executor(self._sweeper, action, path)
        self._sweeps.add(future)
        future.add_done_callback(self._swept)

    def _swept(self, future: asyncio.Future[None]) -> None:
        self._sweeps.discard(future)
        if not future.cancelled() and future.exception():
            log.warning("emptying the trash: %s", future.exception())

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeps:
            await asyncio.wait(set(self._sweeps), timeout=_TRASH_PATIENCE_S)
        self._sweeper.shutdown(wait=False, cancel_futures=True)
        for box in self.boxes.values():
            if box.handle is not None:
                asyncio.get_running_loop().remove_reader(box.handle.pidfd)
                box.handle.close()
        self._writer.shutdown()
        self._store.close()

    def engine(self, box: Box) -> Engine:
        return self.engines[box.row.spec.engine]

    def directory(self, box_id: str) -> str:
        return f"{self.paths.boxes}/{box_id}"

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Box:
        """By name, or by an unambiguous beginning of the id."""
        for box in self.boxes.values():
            if name in (box.row.spec.name, box.row.id):
                return box
        near = [box for box in self.boxes.values() if len(name) >= 4 and box.row.id.startswith(name)]
        if len(near) == 1:
            return near[0]
        raise UserError(f"no box named {name[:80]!r}", hint="`paddock ls` lists them", code="no-box")

    def _same(self, request: BoxRequest) -> Box | None:
        """Identity is (agent, real path of the workspace)."""
        real = os.path.realpath(request.workspace)
        for box in self.boxes.values():
            spec = box.row.spec
            if not spec.ephemeral and (spec.agent, spec.workspace) == (request.agent, real):
                return box
        return None

    # -- create, open, remove ------------------------------------------------------------------------------------------

    async def create(self, request: BoxRequest) -> Box:
        async with self._admission, self._naming:
            return await self._create(request)

    async def _create(self, request: BoxRequest) -> Box:
        if len(self.boxes) >= limits.BOXES_MAX:
            raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some with `paddock prune`", code="too-many")
        spec = normalise(request, private=self.paths.private, home=self._home, taken=self._taken())
        if spec.engine not in self.engines:
            raise Unavailable(f"engine {spec.engine.value!r} is not available", code="no-engine")
        if self.network is not None:
            spec = replace(spec, network=self.network.policies.take_project(spec.network, spec.workspace))
        return await self._add(spec)

    def _taken(self) -> set[str]:
        return {box.name for box in self.boxes.values()} | self.reserved_names

    async def _add(self, spec: BoxSpec) -> Box:
        box_id = BoxId(secrets.token_hex(6))
        directory = self.directory(box_id)
        try:
            os.mkdir(directory, 0o700)
        except OSError as error:
            raise Unavailable(
                f"cannot make {directory}: {error.strerror}", hint="free some disk space", code="disk"
            ) from error
        row = new_row(box_id, spec, {box.row.position for box in self.boxes.values()} | self.reserved_positions)
        try:
            if spec.ephemeral:  # nobody is told that it exists, so nobody waits for the database
                records.write(directory, row)
                self._queue(self._store.insert, row)
            else:
                await self.write(records.add, self._store, directory, row)
        except BaseException:
            self._discard(directory)
            raise
        box = self.boxes[box_id] = Box(row, directory)
        return box

    async def open(self, request: BoxRequest) -> tuple[Box, bool]:
        """The box of this agent and directory, made when there is none; says whether it is new."""
        async with self._naming:
            existing = self._same(request)
            if existing is None:
                return await self._create(request), True
        if request.name and request.name != existing.name:
            raise UserError(
                f"{request.agent} in {existing.row.spec.workspace} is the box {existing.name!r}",
                hint=f"use that name, or remove it first: `paddock rm {existing.name}`",
                code="exists",
            )
        anonymous = replace(request, name="")
        wanted = normalise(anonymous, private=self.paths.private, home=self._home, taken=self._taken())
        require_same_shape(existing.row.spec, request, wanted)
        if request.env:
            await self.set_env(existing.name, request.env, ())
        if request.network != Network():
            await self.set_network(existing, lambda network: merge(network, request.network))
        return existing, False

    async def remove(self, name: str, *, force: bool) -> None:
        await self._remove(self.find(name), force=force)

    async def _remove(self, box: Box, *, force: bool) -> None:
        async with box.lock:
            if box.handle is not None and not force:
                raise UserError(
                    f"the box {box.name!r} is running",
                    hint=f"stop it first, or `paddock rm -f {box.name}`",
                    code="running",
                )
            await self._end(box, grace_s=0.0)
            await self._forget(box)

    async def _forget(self, box: Box) -> None:
        """Its files leave first, in one step: a row without files is finished off by recovery, and may go when the
        disk is full, because they may be what fills it."""
        if self.boxes.get(box.row.id) is not box:
            return
        await self.workspaces.released(box)
        moved = fs.discard_tree(box.directory, self.paths.trash)
        try:
            await self.write(self._store.remove, box.row.id)
        except Unavailable as error:
            if error.code != "disk":
                raise
            await asyncio.to_thread(fs.remove_tree, moved)
            await self.write(self._store.remove, box.row.id)
        del self.boxes[box.row.id]
        if self.network is not None:
            self.network.forget(box.row.id)
        self.sweep(fs.remove_tree, moved)

    async def _forget_later(self, box: Box) -> None:
        while self.boxes.get(box.row.id) is box:
            await asyncio.sleep(_RETRY_S)
            try:
                await self._forget(box)
            except PaddockError as error:
                log.warning("the record of %s cannot be removed yet: %s", box.name, error)

    def _discard(self, directory: str) -> None:
        self.sweep(fs.remove_tree, fs.discard_tree(directory, self.paths.trash))

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self, box: Box) -> None:
        async with box.lock:
            if box.handle is None or box.handle.ended():
                await box.ended.wait()  # its last run is still being put away
            if self.boxes.get(box.row.id) is not box:
                raise UserError(f"the box {box.name!r} was removed", code="no-box")
            if box.handle is None:
                await self._start(box)
            else:
                await self._look_again(box)

    async def _look_again(self, box: Box) -> None:
        """A review box sees its workspace as it is now; who asked is told when that is not as it was."""
        assert box.handle is not None
        why, box.stale = await self.workspaces.changed(box), ""
        is_idle = not why or not await self.running_ids(box)
        if why and is_idle:
            await self.workspaces.begin(box)
        if box.handle.refresh():
            if why:
                box.notes.append(f"{why}: the box sees the workspace as it is now")
        elif is_idle and not await self.running_ids(box):
            await self._end(box, grace_s=0.0)
            await self._start(box)
            box.notes.append("the box was started anew, to see the workspace as it is now")
        else:
            box.stale = why
            box.notes.append(f"commands run in the box, which sees its workspace as it was: `paddock stop {box.name}`")

    async def _start(self, box: Box, listening: Callable[[], None] | None = None) -> None:
        self.starting += 1
        try:
            async with self._admission:
                await self._start_now(box, listening)
        finally:
            self.starting -= 1

    async def _start_now(self, box: Box, listening: Callable[[], None] | None) -> None:
        try:
            handle = await self.make(box, listening)
        except PaddockError as error:
            await self._note(box, BoxState.FAILED, error.message)
            raise
        except OSError as error:
            await self._note(box, BoxState.FAILED, error.strerror or str(error))
            raise
        self.hold(box, handle)
        if box.row.spec.ephemeral:  # nobody is told that it runs, and recovery finds it by its socket
            box.row = replace(box.row, state=BoxState.RUNNING, evidence=handle.evidence)
            self._queue(self._store.set_state, box.row, BoxState.RUNNING, "", handle.evidence)
            return
        try:
            box.row = await self.write(self._store.set_state, box.row, BoxState.RUNNING, "", handle.evidence)
        except BaseException as error:
            box.verdict = Ending(reason=f"its start could not be recorded: {error}", exit_code=_KILLED)
            handle.kill()
            await box.ended.wait()
            raise

    async def make(self, box: Box, listening: Callable[[], None] | None = None) -> Handle:
        await self.workspaces.enter(box)
        if self.network is None:
            return await self.engine(box).start(box.placement, listening=listening)
        spec = box.row.spec
        network = self.network.policies.take_project(spec.network, spec.workspace)
        if network != spec.network:  # only between two runs: a running box never reads its project again
            await self._change_spec(box, replace(spec, network=network))
        return await self.network.start(box, listening)

    async def _note(self, box: Box, state: BoxState, reason: str) -> None:
        """Record how a box ended; without room for it, recovery will find out again."""
        box.in_place = False
        box.row = replace(box.row, state=state, reason=reason, evidence=None)
        try:
            await self.write(self._store.set_state, box.row, state, reason)
        except PaddockError as error:
            log.warning("recording that %s is %s: %s", box.name, state.value, error)

    def hold(self, box: Box, handle: Handle) -> None:
        """From here on the box's end is noticed."""
        box.handle = handle
        box.in_place = True
        box.verdict, box.ending = None, None
        box.ended.clear()
        asyncio.get_running_loop().add_reader(handle.pidfd, self._on_exit, box)
        self.watch.add(self.engine(box).watched(box.placement, handle.evidence))
        if self.network is not None and not self.network.held(box):
            self.later(self.network.seal_again(box), f"seal {box.name} again")

    def _on_exit(self, box: Box) -> None:
        assert box.handle is not None
        asyncio.get_running_loop().remove_reader(box.handle.pidfd)
        self.watch.remove(box.row.id)
        self.later(self._settle(box), f"settle {box.name}")

    async def _settle(self, box: Box) -> None:
        """A box's first process is gone: say why, let go, and remove what was only for this run."""
        assert box.handle is not None
        try:
            if box.row.spec.ephemeral:
                await departures.look(self, box)
            reason = await self.clean(box)
            if self.network is not None:
                await self.network.left(box)
            ending = box.verdict or Ending(reason=reason or _unasked(box), exit_code=_KILLED)
            box.handle.close()
            box.handle, box.ending = None, ending
            if box.row.spec.ephemeral:
                await departures.last(self, box)
            self._endings[box.row.id] = ending
            while len(self._endings) > _ENDINGS_KEPT:
                del self._endings[next(iter(self._endings))]
            if self.boxes.get(box.row.id) is box:
                await self._put_away(box, ending)
        finally:
            box.ended.set()

    async def clean(self, box: Box) -> str:
        try:
            await self.workspaces.left(box)
            return await asyncio.to_thread(self.engine(box).clean, box.placement)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread is to be had
            log.warning("cleaning after %s: %s", box.name, error)
            return ""

    async def _put_away(self, box: Box, ending: Ending) -> None:
        if not box.row.spec.ephemeral:
            await self._note(box, BoxState.FAILED if ending.reason else BoxState.STOPPED, ending.reason)
            return
        box.row = replace(box.row, state=BoxState.STOPPED, evidence=None)
        try:
            await self._forget(box)
        except PaddockError as error:
            log.warning("removing %s: %s", box.name, error)
            self.later(self._forget_later(box), f"forget {box.name}")

    async def stop(self, name: str, grace_s: float = limits.STOP_GRACE_S) -> None:
        box = self.find(name)
        async with box.lock:
            await self._end(box, grace_s=grace_s)

    async def _end(self, box: Box, *, grace_s: float) -> None:
        if box.handle is None:
            await box.ended.wait()
            return
        box.verdict = box.verdict or Ending(reason="", exit_code=_KILLED)
        if grace_s > 0 and await self._asked_to_end(box, grace_s):
            return
        if box.handle is not None:
            box.handle.kill()
        await box.ended.wait()

    async def _asked_to_end(self, box: Box, grace_s: float) -> bool:
        assert box.handle is not None
        try:
            with self._connect(box) as channel:
                await commands.send(channel, {"op": "shutdown", "grace_s": grace_s}, [])
            await asyncio.wait_for(box.ended.wait(), grace_s + 1.0)
        except (OSError, TimeoutError, PaddockError):
            return False
        return True

    def condemn(self, box_id: BoxId, reason: str) -> None:
        """A limit was crossed: end the box, and let everyone who asks know why."""
        box = self.boxes.get(box_id)
        if box and box.handle is not None:
            log.warning("ending %s: %s", box.name, reason)
            box.verdict = Ending(reason=reason, exit_code=_TIMED_OUT if reason.startswith("wall") else _KILLED)
            box.handle.kill()

    async def end_homeless(self) -> None:
        """Our state was deleted: end the boxes whose files went with it, since nobody can find them again."""
        homeless = [box for box in self.boxes.values() if box.handle and fs.is_missing(box.directory)]
        for box in homeless:
            self.condemn(box.row.id, "its files are gone")
        await asyncio.gather(*(box.ended.wait() for box in homeless))

    async def ending(self, box_id: str) -> Ending:
        """Why a box went away, for a client whose channel broke; waits until we know."""
        box = self.boxes.get(BoxId(box_id))
        if box:
            try:
                await asyncio.wait_for(box.ended.wait(), _SETTLE_S)
            except TimeoutError:
                return Ending(reason="its connection broke while the box runs on", exit_code=125)
        return self._endings.get(box_id, Ending(reason="", exit_code=_KILLED))

    async def killed(self, box_id: str) -> str:
        """Why processes of a box were killed, where the kernel or the watch did it; an ephemeral box ends first."""
        box = self.boxes.get(BoxId(box_id))
        if box and box.row.spec.ephemeral:
            try:
                await asyncio.wait_for(box.ended.wait(), _SETTLE_S)
            except TimeoutError:
                return ""
        if box and box.handle is not None:
            return self.engine(box).killed(box.placement)
        return self._endings[box_id].reason if box_id in self._endings else ""

    # -- commands ------------------------------------------------------------------------------------------------------

    async def run(self, request: BoxRequest, spec: ExecSpec) -> tuple[Box, str, socket.socket]:
        """An ephemeral box around one command."""
        commands.check_user(spec.user)
        box = await self.create(replace(request, ephemeral=True))
        job = commands.new_job_id()
        try:
            spec = replace(spec, main=True, timeout_s=spec.timeout_s or box.row.spec.limits.wall_s)
            self._expect_answers(box, spec)
            async with box.lock:
                channel = await self._start_with(box, spec, job)
        except BaseException:
            async with box.lock:
                await self._end(box, grace_s=0.0)
                await self._forget(box)
            raise
        return box, job, channel

    async def _start_with(self, box: Box, spec: ExecSpec, job: str) -> socket.socket:
        """Start a box whose first command waits for it, so that neither waits for the other."""
        waiting: list[tuple[socket.socket, asyncio.Task[None]]] = []

        def listening() -> None:
            message = self._start_message(box, spec, job)  # now: its environment names files that were just made
            channel = self.engine(box).connect(box.placement)
            send = asyncio.get_running_loop().create_task(commands.send(channel, message, []), name="first command")
            waiting.append((channel, send))

        try:
            await self._start(box, listening)
            self.watch.set_active(box.row.id, active=True)
            channel, send = waiting[0]
            await send
        except BaseException:
            for channel, send in waiting:
                send.cancel()
                channel.close()
            raise
        return channel

    async def exec(self, box: Box, spec: ExecSpec) -> tuple[str, socket.socket]:
        """Start a command and hand back its channel; init's answer is the first thing on it."""
        commands.check_user(spec.user)
        self._expect_answers(box, spec)
        await self.start(box)
        self.watch.set_active(box.row.id, active=True)
        job = commands.new_job_id()
        message = self._start_message(box, spec, job)
        channel = self._connect(box)
        try:
            if message["journal_bytes"]:
                with commands.journal_files(box.directory, job) as fds:
                    await self._record_job(box, job, spec)
                    await self._send_start(box, job, channel, message, fds)
            else:
                await _send(box, channel, message, [])
        except BaseException:
            channel.close()
            raise
        return job, channel

    def _expect_answers(self, box: Box, spec: ExecSpec) -> None:
        """Someone who runs a command at a terminal can be asked about its connections, from the first one on."""
        if self.network is not None and spec.tty is not None:
            self.network.attendance.arriving(box)
            self.later(self.network.attendance.await_arrival(box), f"await who answers for {box.name}")

    async def _send_start(self, box: Box, job: str, channel: socket.socket, message: Message, fds: list[int]) -> None:
        try:
            await _send(box, channel, message, fds)
        except BaseException:
            await self.write(self._store.remove_job, box.row.id, job)
            raise

    def _start_message(self, box: Box, spec: ExecSpec, job: str) -> Message:
        wanted = box.row.spec
        journal_bytes = commands.journal_bytes(wanted.limits)
        return commands.start_message(spec, job, self.environment(box), wanted.workdir, journal_bytes)

    async def _record_job(self, box: Box, job: str, spec: ExecSpec) -> None:
        await self.write(self._store.add_job, box.row.id, JobRow(id=job, argv=spec.argv, started_at=now()))
        jobs = await self.write(self._store.jobs, box.row.id)
        for old in jobs[: -limits.JOBS_KEPT_PER_BOX]:
            if not journals.state(box.directory, old.id).running:
                await self.write(self._store.remove_job, box.row.id, old.id)
                journals.remove(box.directory, old.id)

    def _connect(self, box: Box) -> socket.socket:
        if box.handle is None:
            raise Unavailable(f"the box {box.name!r} is not running", hint="run the command again", code="gone")
        try:
            return self.engine(box).connect(box.placement)
        except OSError as error:
            raise Unavailable(
                f"the box {box.name!r} does not answer: {error.strerror}",
                hint=f"`paddock stop {box.name}`, then try again",
                code="gone",
            ) from error

    async def channel(self, name: str) -> tuple[Box, socket.socket]:
        """A fresh channel to a box's init, for files and process verbs."""
        box = self.find(name)
        await self.start(box)
        return box, self._connect(box)

    async def session(self, box: Box, spec: ExecSpec) -> tuple[str, socket.socket]:
        """Re-attach to the box's waiting terminal session, or start one."""
        if box.handle is not None and spec.tty:
            with self._connect(box) as channel:
                rows = (await commands.ask(channel, {"op": "list"})).get("processes")
            for row in rows if isinstance(rows, list) else []:
                if isinstance(row, dict) and row.get("tty") and row.get("clients") == 0:
                    channel = self._connect(box)
                    await commands.send(channel, {"op": "connect", "id": str(row.get("id"))}, [])
                    return str(row.get("id")), channel
        return await self.exec(box, spec)

    async def signal(self, name: str, job: str, number: int) -> None:
        """Send a signal to a command and all its group; never starts a box for it."""
        with self._connect(self.find(name)) as channel:
            commands.expect(await commands.ask(channel, {"op": "signal", "id": job, "signal": number}), "done")

    def agent_command(self, box: Box) -> tuple[str, ...]:
        agent = agents.find(box.row.spec.agent)
        return agent.interactive if os.access(f"/bin/{agent.interactive[0]}", os.X_OK) else agent.fallback

    def environment(self, box: Box) -> dict[str, str]:
        return {**self.engine(box).environment(box.placement), **box.row.spec.env}

    async def set_env(self, name: str, values: dict[str, str], removed: tuple[str, ...]) -> None:
        """Takes effect for the next command; nothing is restarted."""
        box = self.find(name)
        async with box.lock:
            env = {key: value for key, value in {**box.row.spec.env, **values}.items() if key not in removed}
            await self._change_spec(box, replace(box.row.spec, env=check_env(env)))

    async def set_network(self, box: Box, change: Callable[[Network], Network]) -> None:
        """Change a box's own rules; in force, and on disk, when this returns."""
        async with box.lock:
            network = change(box.row.spec.network)
            if network != box.row.spec.network:
                await self._change_spec(box, replace(box.row.spec, network=network))
        if self.network is not None:
            await self.network.push(box)

    async def _change_spec(self, box: Box, spec: BoxSpec) -> None:
        box.row = await self.write(records.change, self._store, box.directory, box.row, spec)

    # -- looking -------------------------------------------------------------------------------------------------------

    def inspect(self, name: str) -> BoxInfo:
        return self.info(self.find(name))

    def info(self, box: Box) -> BoxInfo:
        limits = self.engine(box).limits(box.placement, running=box.handle is not None)
        return box.info(limits, network=self._network_word(box))

    def brief(self, box: Box) -> BoxInfo:
        """Without its limits, which take a look at the kernel."""
        return box.info(network=self._network_word(box))

    def _network_word(self, box: Box) -> str:
        return self.network.word(box) if self.network is not None else "none"

    async def describe(self, name: str) -> tuple[str, ...]:
        box = self.find(name)
        async with box.lock:
            await self.workspaces.look(box)
        return self.engine(box).describe(box.placement)

    async def running_ids(self, box: Box) -> set[str]:
        """The commands that init holds now: a journal without an end may be of a run that was killed."""
        try:
            with self._connect(box) as channel:
                rows = (await commands.ask(channel, {"op": "list"})).get("processes")
        except PaddockError:
            return set()
        return {str(row.get("id")) for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()

    async def job_rows(self, box: Box) -> list[JobRow]:
        return await self.write(self._store.jobs, box.row.id)

    # -- many ----------------------------------------------------------------------------------------------------------

    async def prune(self) -> list[str]:
        """Remove every box that has run and is not running."""
        gone = [box for box in self.boxes.values() if box.handle is None and box.state is not BoxState.CREATED]
        return await self._remove_all(gone, force=False)

    async def reset(self) -> list[str]:
        return await self._remove_all(list(self.boxes.values()), force=True)

    async def _remove_all(self, boxes: list[Box], *, force: bool) -> list[str]:
        """Names of what is gone; an error comes after everything that could go has gone."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def remove(box: Box) -> str:
            async with limit:
                await self._remove(box, force=force)
            return box.name

        done = await asyncio.gather(*(remove(box) for box in boxes), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException) and not isinstance(error, UserError):  # started, or gone, meanwhile
                raise error
        return [name for name in done if isinstance(name, str)]


def _log_failure(done: Future[object]) -> None:
    if error := done.exception():
        log.error("a record was not written: %s", error)


def _unasked(box: Box) -> str:
    """A box around one command ends with it; any other ends when we say so."""
    return "" if box.row.spec.ephemeral else "its first process ended unexpectedly"


async def _send(box: Box, channel: socket.socket, message: Message, fds: list[int]) -> None:
    try:
        await commands.send(channel, message, fds)
    except OSError as error:
        raise Unavailable(
            f"the box {box.name!r} went away: {error.strerror}", hint="run the command again", code="gone"
        ) from error

"""The composition of store, engines and boxes: every verb of the daemon is one method here.

Rules that hold throughout: a box's row is written before its effect is acknowledged; a box changes state only under its
own lock; what a box says is parsed as hostile; the truth about a running box is its pidfd, never our memory of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paddock import agents, fs, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import BoxId, BoxInfo, BoxRequest, BoxSpec, BoxState, EngineName, ExecSpec, JobInfo, check_env
from paddock.runtime import commands, journals
from paddock.runtime.box import Box, Ending
from paddock.runtime.normalise import normalise
from paddock.store import JobRow, Store, now

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Mapping

    from paddock.engines.base import Engine, Handle
    from paddock.model import LimitReport
    from paddock.paths import Paths
    from paddock.watch import Watch

    MakeWatch = Callable[[Callable[[BoxId, str], None]], Watch]

log = logging.getLogger(__name__)
T = TypeVar("T")
_ENDINGS_KEPT = 1024
_KILLED, _TIMED_OUT = 137, 124


class Runtime:
    def __init__(
        self, paths: Paths, store: Store, engines: Mapping[EngineName, Engine], home: str, make_watch: MakeWatch
    ) -> None:
        self.paths = paths
        self.boxes: dict[BoxId, Box] = {}
        self.repairs: list[str] = []  # what recovery found and mended, for doctor
        self._store = store
        self._engines = engines
        self._home = home
        self.watch = make_watch(self.condemn)
        self._endings: dict[str, Ending] = {}
        # One thread for the store: a slow disk must not stop the event loop, and writes stay in order.
        self._writer = ThreadPoolExecutor(1, "store")
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Runtime {len(self.boxes)} boxes>"

    # -- plumbing ------------------------------------------------------------------------------------------------------

    async def write(self, action: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, action, *args)

    def later(self, coroutine: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("%s failed", task.get_name(), exc_info=task.exception())

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for box in self.boxes.values():
            if box.handle is not None:
                asyncio.get_running_loop().remove_reader(box.handle.pidfd)
                box.handle.close()
        self._writer.shutdown()
        self._store.close()

    def engine(self, box: Box) -> Engine:
        return self._engines[box.row.spec.engine]

    def directory(self, box_id: str) -> str:
        return f"{self.paths.boxes}/{box_id}"

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Box:
        """By name, or by an unambiguous beginning of the id."""
        for box in self.boxes.values():
            if name in {box.name, box.row.id}:
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
        if len(self.boxes) >= limits.BOXES_MAX:
            raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some with `paddock prune`", code="too-many")
        taken = {box.name for box in self.boxes.values()}
        spec = normalise(request, private=self.paths.private, home=self._home, taken=taken)
        if spec.engine not in self._engines:
            raise Unavailable(f"engine {spec.engine.value!r} is not available", code="no-engine")
        return await self._add(spec)

    async def _add(self, spec: BoxSpec) -> Box:
        box_id = BoxId(secrets.token_hex(6))
        directory = self.directory(box_id)
        try:
            os.mkdir(directory, 0o700)
            if not spec.ephemeral:
                fs.write_atomic(f"{directory}/spec.json", journals.spec_text(spec))
        except OSError as error:
            raise Unavailable(
                f"cannot make {directory}: {error.strerror}", hint="free some disk space", code="disk"
            ) from error
        try:
            row = await self.write(self._store.add, box_id, spec)
        except BaseException:
            self._discard(directory)
            raise
        box = Box(row, directory)
        self.boxes[box_id] = box
        return box

    async def open(self, request: BoxRequest) -> tuple[Box, bool]:
        """The box of this agent and directory, made when there is none; says whether it is new."""
        existing = self._same(request)
        if existing is None:
            return await self.create(request), True
        if request.name and request.name != existing.name:
            raise UserError(
                f"{request.agent} in {existing.row.spec.workspace} is the box {existing.name!r}",
                hint=f"use that name, or remove it first: `paddock rm {existing.name}`",
                code="exists",
            )
        self._require_same_shape(existing, request)
        if request.env:
            await self.set_env(existing.name, request.env, ())
        return existing, False

    def _require_same_shape(self, box: Box, request: BoxRequest) -> None:
        spec = box.row.spec
        taken = {other.name for other in self.boxes.values()}
        wanted = normalise(replace(request, name=""), private=self.paths.private, home=self._home, taken=taken)
        for key in ("engine", "mounts", "limits"):
            asked = getattr(request, key)
            default = getattr(BoxRequest(workspace=request.workspace), key)
            if asked != default and getattr(wanted, key) != getattr(spec, key):
                raise UserError(
                    f"the box {spec.name!r} exists with other {key}",
                    hint=f"recreate it: `paddock rm {spec.name}`, then run again",
                    code="different",
                )

    async def remove(self, name: str, *, force: bool) -> None:
        box = self.find(name)
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
        if self.boxes.get(box.row.id) is not box:
            return
        await self.write(self._store.remove, box.row.id)
        del self.boxes[box.row.id]
        self._discard(box.directory)

    def _discard(self, directory: str) -> None:
        try:
            moved = fs.discard_tree(directory, self.paths.trash)
        except FileNotFoundError:
            return
        self.later(asyncio.to_thread(fs.remove_tree, moved), "empty trash")

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self, box: Box) -> None:
        async with box.lock:
            if self.boxes.get(box.row.id) is not box:
                raise UserError(f"the box {box.name!r} was removed", code="no-box")
            if box.handle is None:
                await self._start(box)

    async def _start(self, box: Box) -> None:
        try:
            handle = await self.engine(box).start(box.placement)
        except PaddockError as error:
            if not box.row.spec.ephemeral:
                box.row = await self.write(self._store.set_state, box.row, BoxState.FAILED, error.message)
            raise
        try:
            box.row = await self.write(self._store.set_state, box.row, BoxState.RUNNING, "", handle.evidence)
        except BaseException:
            handle.kill()
            handle.close()
            raise
        self.hold(box, handle)

    def hold(self, box: Box, handle: Handle) -> None:
        """From here on the box's end is noticed."""
        box.handle = handle
        box.verdict, box.ending = None, None
        box.ended.clear()
        asyncio.get_running_loop().add_reader(handle.pidfd, self._on_exit, box)
        self.watch.add(self.engine(box).watched(box.placement, handle.evidence))

    def _on_exit(self, box: Box) -> None:
        assert box.handle is not None
        asyncio.get_running_loop().remove_reader(box.handle.pidfd)
        self.watch.remove(box.row.id)
        self.later(self._settle(box), f"settle {box.name}")

    async def _settle(self, box: Box) -> None:
        """A box's first process is gone: say why, let go, and remove what was only for this run."""
        assert box.handle is not None
        try:
            reason = await asyncio.to_thread(self.engine(box).clean, box.placement)
        except OSError as error:
            log.warning("cleaning after %s: %s", box.name, error)
            reason = ""
        ending = box.verdict or Ending(reason=reason, exit_code=_KILLED)
        box.handle.close()
        box.handle, box.ending = None, ending
        self._endings[box.row.id] = ending
        while len(self._endings) > _ENDINGS_KEPT:
            del self._endings[next(iter(self._endings))]
        try:
            if box.row.spec.ephemeral:
                await self._forget(box)
            elif self.boxes.get(box.row.id) is box:
                state = BoxState.FAILED if ending.reason else BoxState.STOPPED
                box.row = await self.write(self._store.set_state, box.row, state, ending.reason)
        except PaddockError as error:
            log.error("recording the end of %s: %s", box.name, error)  # noqa: TRY400  recovery will find it ended
        finally:
            box.ended.set()

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
            with box.handle.connect() as channel:
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

    async def ending(self, box_id: str) -> Ending:
        """Why a box went away, for a client whose channel broke; waits until we know."""
        box = self.boxes.get(BoxId(box_id))
        if box:
            try:
                await asyncio.wait_for(box.ended.wait(), 2.0)
            except TimeoutError:
                return Ending(reason="its connection broke while the box runs on", exit_code=125)
        return self._endings.get(box_id, Ending(reason="", exit_code=_KILLED))

    # -- commands ------------------------------------------------------------------------------------------------------

    async def run(self, request: BoxRequest, spec: ExecSpec) -> tuple[Box, str, socket.socket]:
        """An ephemeral box around one command."""
        box = await self.create(replace(request, ephemeral=True))
        try:
            job, channel = await self.exec(box, replace(spec, main=True))
        except BaseException:
            async with box.lock:
                await self._end(box, grace_s=0.0)
                await self._forget(box)
            raise
        return box, job, channel

    async def exec(self, box: Box, spec: ExecSpec) -> tuple[str, socket.socket]:
        """Start a command and hand back its channel; init's answer is the first thing on it."""
        commands.check_user(spec.user)
        await self.start(box)
        self.watch.set_active(box.row.id, active=True)
        job = commands.new_job_id()
        message = commands.start_message(spec, job, self.environment(box), box.row.spec.workdir)
        channel = self._connect(box)
        try:
            if message["journal_bytes"]:
                await self._record_job(box, job, spec)
                with commands.journal_files(box.directory, job) as fds:
                    await commands.send(channel, message, fds)
            else:
                await commands.send(channel, message, [])
        except OSError as error:
            channel.close()
            raise Unavailable(f"the box {box.name!r} went away: {error.strerror}", code="gone") from error
        except BaseException:
            channel.close()
            raise
        return job, channel

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
            return box.handle.connect()
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
            spec = replace(box.row.spec, env=check_env(env))
            box.row = await self.write(self._store.set_spec, box.row, spec)
            fs.write_atomic(f"{box.directory}/spec.json", journals.spec_text(spec))

    # -- looking -------------------------------------------------------------------------------------------------------

    def inspect(self, name: str) -> BoxInfo:
        box = self.find(name)
        return box.info(self.limit_reports(box))

    def limit_reports(self, box: Box) -> tuple[LimitReport, ...]:
        return self.engine(box).limits(box.placement, running=box.handle is not None)

    def describe(self, name: str) -> tuple[str, ...]:
        box = self.find(name)
        return self.engine(box).describe(box.placement)

    async def jobs(self, name: str) -> list[JobInfo]:
        box = self.find(name)
        rows = await self.write(self._store.jobs, box.row.id)
        running = await self._running_ids(box)
        return [self._job_info(box, row, running) for row in rows]

    async def _running_ids(self, box: Box) -> set[str]:
        """The commands that init holds now: a journal without an end may be of a run that was killed."""
        try:
            with self._connect(box) as channel:
                rows = (await commands.ask(channel, {"op": "list"})).get("processes")
        except PaddockError:
            return set()
        return {str(row.get("id")) for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()

    def _job_info(self, box: Box, row: JobRow, running: set[str]) -> JobInfo:
        state = journals.state(box.directory, row.id)
        return JobInfo(
            id=row.id,
            box=box.name,
            argv=row.argv,
            started_at=row.started_at,
            running=state.running and row.id in running,
            exit_code=state.exit_code,
        )

    async def log_files(self, name: str, job: str) -> tuple[JobInfo, list[int]]:
        """A job's journal, as two descriptors to read."""
        box = self.find(name)
        rows = await self.write(self._store.jobs, box.row.id)
        chosen = [row for row in rows if not job or row.id == job]
        if not chosen:
            what = f"job {job!r}" if job else "journalled command"
            raise UserError(
                f"the box {box.name!r} has no {what}", hint=f"`paddock logs --list {box.name}`", code="no-job"
            )
        row = chosen[-1]
        return self._job_info(box, row, await self._running_ids(box)), journals.open_files(box.directory, row.id)

    # -- many ----------------------------------------------------------------------------------------------------------

    async def prune(self) -> list[str]:
        """Remove every box that has run and is not running."""
        gone = [box for box in self.boxes.values() if box.handle is None and box.state is not BoxState.CREATED]
        for box in gone:
            await self.remove(box.name, force=False)
        return [box.name for box in gone]

    async def reset(self) -> list[str]:
        names = [box.name for box in self.boxes.values()]
        for name in names:
            try:
                await self.remove(name, force=True)
            except UserError:
                continue  # gone meanwhile
        return names

"""The process engine: makes boxes through the launcher, finds them again, and says what holds their limits."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import socket
import time
from typing import TYPE_CHECKING, ClassVar

from paddock import fs, limits
from paddock.engines.process import accounting, bounds, covers, handle, init_socket, storage
from paddock.engines.process import plan as plans
from paddock.engines.process.covers import Covers
from paddock.engines.process.handle import ProcessHandle
from paddock.engines.process.hostview import HostView
from paddock.engines.process.operations import STORED, Ground
from paddock.engines.process.trees import Trees, subordinate_id
from paddock.engines.process.warm import DIED
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from paddock.readiness import readable, within
from paddock.watch import WatchedBox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from paddock.engines.base import Handle, Placement
    from paddock.engines.process.plan import Plan
    from paddock.engines.process.warm import Launcher
    from paddock.model import BoxId, Evidence, LimitReport

log = logging.getLogger(__name__)
_BOX_ID = 1000  # the user inside a root caller's box
_PLAN_BYTES = 1 << 20
_OWN_TIMER_S = 1.0
_OVERLAY = re.compile(r"\b(overlay|branch) (/.*): ([^:]*)$", re.DOTALL)  # the failure of one (mounting.py)


class ProcessEngine:
    _handle = ProcessHandle
    _stored: ClassVar[tuple[str, ...]] = STORED

    def __init__(self, state_dir: str, launcher: Launcher, held: bounds.Bounds) -> None:
        self._state_dir = state_dir
        self._launcher = launcher
        self._bounds = held
        self._caller_uid = os.getuid()
        self._is_root = self._caller_uid == 0
        self._uid, self._gid = (_BOX_ID, _BOX_ID) if self._is_root else (self._caller_uid, os.getgid())
        self._view = HostView(f"{state_dir}/view", uid=self._uid, gid=self._gid)
        self._trees = Trees(launcher)
        self._covers = Covers(launcher, self._trees if self._is_root else None)

    def __repr__(self) -> str:
        return f"<ProcessEngine for uid {self._caller_uid}>"

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(
        self, placement: Placement, door: int | None = None, listening: Callable[[], None] | None = None
    ) -> ProcessHandle:
        await storage.prepare(placement)
        with init_socket.listening(placement) as listener:
            if listening:
                listening()
            return await self._insist(lambda: self._attempt(placement, listener, door))

    async def _insist(self, attempt: Callable[[], Coroutine[None, None, ProcessHandle]]) -> ProcessHandle:
        """A launcher that somebody killed is asked once more."""
        try:
            return await attempt()
        except Unavailable as error:
            if error.code != DIED:
                raise
            return await attempt()  # what it may have cloned ended with our socket

    async def _attempt(self, placement: Placement, listener: socket.socket, door: int | None) -> ProcessHandle:
        """The launcher clones while we make the plan; the process waits for it, as do commands sent to its socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        id_map = f"0 {subordinate_id(placement.index)} 1"
        with ours:
            with theirs:
                clone = self._launcher.clone(id_map, id_map, theirs.fileno(), listener.fileno())
                made = await asyncio.gather(clone, self._send_plan(ours, placement, door), return_exceptions=True)
            if isinstance(made[0], BaseException):
                raise made[0]
            return await self._settle(placement, made[0], ours, made[1])

    async def _send_plan(self, channel: socket.socket, placement: Placement, door: int | None) -> None:
        plan = self._plan(placement, sealed=door is not None)
        self._covers.begin(placement, plan.mounts)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PLAN_BYTES)
        channel.setblocking(False)
        trees = await self._trees.open(plan.mounts, placement.index) if self._is_root else []
        try:
            socket.send_fds(channel, [plan.encode()], trees if door is None else [*trees, door])
        finally:
            for fd in trees:
                os.close(fd)

    async def _settle(
        self, placement: Placement, pid: int, channel: socket.socket, planned: BaseException | None
    ) -> ProcessHandle:
        try:
            held = handle.hold(placement, pid, self._handle)
        except Unavailable as early:
            raise (await _last_words(channel) if planned is None else None) or early from None
        attaching = asyncio.ensure_future(self._attach(placement, pid))
        try:
            if planned is not None:
                raise planned
            await self._bring_up(placement, held, channel, attaching)
        except BaseException as error:
            held.kill()
            held.close()
            await asyncio.gather(attaching, return_exceptions=True)  # it fails too, and nobody else would hear of it
            await asyncio.to_thread(self._bounds.remove, placement)
            if isinstance(error, BrokenPipeError):
                raise handle.ended_early() from error
            raise
        return held

    async def _bring_up(
        self, placement: Placement, held: ProcessHandle, channel: socket.socket, attaching: asyncio.Future[None]
    ) -> None:
        *held.overlays, held.namespace = await ready(channel)
        self._covers.keep(placement, held.namespace)
        await asyncio.shield(attaching)
        channel.send(b"go")  # it runs nothing before it is in its cgroup

    async def _attach(self, placement: Placement, pid: int) -> None:
        # Moving a process between cgroups waits for readers all over the machine: it builds itself meanwhile.
        if self._bounds.has_cgroups():
            await asyncio.to_thread(self._bounds.attach, placement, pid)

    def _plan(self, placement: Placement, *, sealed: bool) -> Plan:
        spec = placement.spec
        shared_etc, shared_shims = self._view.shared()
        ground = Ground(
            etc=shared_etc,
            shims=shared_shims,
            storage=placement.directory,
            toolchains=self._view.toolchains(spec.caller_path, spec.caller_home),
            uid=self._uid,
            gid=self._gid,
            is_root=self._is_root,
            memory_bytes=bounds.memory_bytes(spec.limits),
            memory_by_kernel=self._bounds.holds_memory(),
            sealed=sealed,
            localhost_ports=placement.localhost_ports if sealed else (),
            home_layers=tuple(map(self._tree, spec.home_layers)),
            view=placement.view,
            tools=placement.tools,
        )
        return plans.make(spec, ground)

    def _tree(self, layer: str) -> str:
        """A directory of the user's, or one of the store's (images/layers.py)."""
        kind, _, name = layer.partition(":")
        return layer if layer.startswith("/") else f"{self._state_dir}/layers/{kind}/{name}/tree"

    # -- while it runs, and after --------------------------------------------------------------------------------------

    def reseal(self, placement: Placement, door: int) -> None:
        init_socket.reseal(placement, door)

    async def save(self, placement: Placement) -> str:
        raise Unavailable(f"the processes of {placement.spec.name!r} are the host's kernel's", code="no-memory")

    def connect(self, placement: Placement) -> socket.socket:
        return init_socket.connect(placement)

    def adopt(self, placement: Placement, evidence: Evidence | None) -> ProcessHandle | None:
        kernel_uid = subordinate_id(placement.index) if self._is_root else self._caller_uid
        # No record, or that of an earlier run: so it is when a daemon dies between a start and its record.
        found = handle.find(placement, evidence) or handle.find(
            placement, init_socket.ask_identity(placement, kernel_uid)
        )
        # Now, and not when they are needed: who looks whether a box is abandoned counts its connections.
        if found is not None and (placement.spec.mode is WorkspaceMode.REVIEW or self._covers.names(placement)):
            *found.overlays, found.namespace = init_socket.ask_handles(placement) or [-1]
        return found

    def covered(self, placement: Placement) -> dict[str, tuple[int, ...]]:
        return self._covers.names(placement)

    async def cover(self, placement: Placement, handle: Handle) -> tuple[str, ...]:
        assert isinstance(handle, ProcessHandle)
        if handle.namespace < 0:
            found = await asyncio.to_thread(init_socket.ask_handles, placement)
            if found and handle.namespace < 0 and not handle.closed:
                handle.namespace = found.pop()
            for fd in found:
                os.close(fd)
        if handle.namespace < 0 or handle.closed:
            raise covers.unknown_mounts()
        return await self._covers.restore(placement, handle.namespace)

    def clean(self, placement: Placement) -> str:
        self._covers.forget(placement)
        init_socket.remove(placement)
        return self._bounds.remove(placement)

    def sweep(self, alive: Collection[BoxId]) -> list[str]:
        return self._bounds.sweep(alive)

    # -- what it is ----------------------------------------------------------------------------------------------------

    def environment(self, placement: Placement) -> dict[str, str]:
        return self._view.environment(placement)

    def killed(self, placement: Placement) -> str:
        return self._bounds.killed(placement)

    def processor_s(self, evidence: Evidence) -> float:
        return accounting.processor_of(evidence.pid)

    def limits(self, placement: Placement, *, running: bool) -> tuple[LimitReport, ...]:
        return self._bounds.report(placement, running=running)

    def watched(self, placement: Placement, evidence: Evidence) -> WatchedBox:
        wanted = placement.spec.limits
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - evidence.start_ticks / os.sysconf("SC_CLK_TCK")
        # The one command of an ephemeral box has a timer of its own, which lets its last output through.
        grace_s = _OWN_TIMER_S if placement.spec.ephemeral else 0.0
        left_s = wanted.wall_s + grace_s - age_s if wanted.wall_s else None
        return WatchedBox(
            id=placement.id,
            init_pid=evidence.pid,
            memory_bytes=None if "memory" in self._bounds.held(placement) else bounds.memory_bytes(wanted),
            disk_bytes=wanted.disk_bytes or limits.DISK_BYTES_DEFAULT,
            paths=(placement.directory,),
            places=self._stored,
            deadline_s=time.monotonic() + left_s if left_s is not None else None,
            wall_s=wanted.wall_s or 0.0,
        )

    def describe(self, placement: Placement) -> tuple[str, ...]:
        storage.stand_in(placement)
        return self._plan(placement, sealed=True).describe()


async def ready(channel: socket.socket) -> list[int]:
    """Wait for the box's own word that it is confined; the handles it keeps for us come with it."""
    fds: list[int] = []
    try:
        await within(readable(channel.fileno()), limits.START_TIMEOUT_S)
        data, fds = fs.receive_fds(channel, _PLAN_BYTES, init_socket.HANDLES_MAX)
        reply = json.loads(data or b"{}")
    except TimeoutError:
        reply = {"error": f"no answer in {limits.START_TIMEOUT_S:.0f} s"}
    except (OSError, ValueError) as error:
        reply = {"error": str(error)}
    if reply.get("ok") is not True:
        for fd in fds:
            os.close(fd)
        raise _failed(reply)
    log.debug("steps of a start: %s", reply.get("marks"))  # `./bench --only phases` reads them
    return fds


async def _last_words(channel: socket.socket) -> Unavailable | None:
    """Of a box that ended before we had hold of it: why it did, if it said so."""
    try:
        fds = await ready(channel)
    except Unavailable as error:
        return None if error.code == "start-start" else error
    for fd in fds:
        os.close(fd)
    return None


def _failed(reply: dict[str, object]) -> Unavailable:
    step, error = reply.get("step", "start"), reply.get("error", "it ended without a word")
    no_overlay = _OVERLAY.search(str(error))
    if no_overlay and no_overlay[3] != os.strerror(errno.ENOENT):  # which says that one of its directories is gone
        needs = "--review" if no_overlay[1] == "overlay" else "a container, or a box that has had a checkpoint,"
        return Unavailable(
            f"no overlay can be mounted over {no_overlay[2]}, which {needs} needs: {no_overlay[3]}",
            hint="`paddock doctor` tries it: if its line `overlay` is ok, it is the file system; --clone needs none",
            code="no-overlay",
        )
    return Unavailable(f"the box could not start: {step}: {error}", hint="run `paddock doctor`", code=f"start-{step}")

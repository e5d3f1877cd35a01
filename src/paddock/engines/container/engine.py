"""The container engine: the launcher, seal, limits and workspace of process boxes, on a root file system of its own
that an OCI runtime starts init in.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.engines.container import gvisor, ids, interpreter, keeper, root, runtimes, saving
from paddock.engines.container import plan as plans
from paddock.engines.container.handle import ContainerHandle
from paddock.engines.process import bounds, branch, handle, init_socket, shims, storage, trees
from paddock.engines.process.covers import Covers
from paddock.engines.process.engine import ProcessEngine, ready
from paddock.engines.process.hostprograms import SYSTEM_PATH
from paddock.engines.process.operations import Ground
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from paddock.readiness import readable, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.base import Placement
    from paddock.engines.process.handle import ProcessHandle
    from paddock.engines.process.warm import Launcher
    from paddock.model import BoxSpec, Evidence, LimitReport
    from paddock.watch import WatchedBox

_KEEPER: Final = init_socket.KEEPER
_BUILT: Final = b'{"built": true}'
_SHELL: Final = "/bin/sh"  # what every image that has any has


class ContainerEngine(ProcessEngine):
    _handle = ContainerHandle
    _stored = ("/",)  # all of its root; by gVisor's own processes, under a name before it

    def __init__(self, state_dir: str, launcher: Launcher, held: bounds.Bounds) -> None:
        super().__init__(state_dir, launcher, held)
        self._trees = trees.Trees(launcher, _first_id)
        self._covers = Covers(launcher, self._trees if self._is_root else None)

    def __repr__(self) -> str:
        return f"<ContainerEngine for uid {self._caller_uid}>"

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(
        self, placement: Placement, door: int | None = None, listening: Callable[[], None] | None = None
    ) -> ProcessHandle:
        runtimes.find(placement.spec.runtime)
        await storage.prepare(placement)
        _prepare_root(placement)
        await asyncio.to_thread(saving.lay_out, placement, lambda: self._origin(placement.spec))
        with init_socket.listening(placement, _KEEPER) as own, init_socket.listening(placement) as listener:
            if listening:
                listening()
            return await self._insist(lambda: self._launch(placement, listener, own, door))

    def limits(self, placement: Placement, *, running: bool) -> tuple[LimitReport, ...]:
        own_kernel = placement.spec.runtime == gvisor.NAME
        return self._bounds.report(placement, running=running, own_kernel=own_kernel)

    def watched(self, placement: Placement, evidence: Evidence) -> WatchedBox:
        """gVisor does not notice that a process in which a program of its box ran is gone."""
        found = super().watched(placement, evidence)
        own_kernel = placement.spec.runtime == gvisor.NAME
        return replace(found, killed=functools.partial(self.killed, placement)) if own_kernel else found

    async def _launch(
        self, placement: Placement, listener: socket.socket, own: socket.socket, door: int | None
    ) -> ProcessHandle:
        plan = await asyncio.to_thread(self._plan, placement, sealed=door is not None)
        granted = ids.of_caller(placement.index)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                pid = await self._launcher.clone(*granted.texts(), theirs.fileno(), listener.fileno(), own.fileno())
            failure: BaseException | None = None
            try:
                if granted.by_tool:
                    await asyncio.to_thread(ids.give, pid, granted)
                await self._send(ours, placement, plan, door)
            except BaseException as error:  # noqa: BLE001  the clone is ended first
                failure = error
            return await self._settle(placement, pid, ours, failure)

    async def _send(self, channel: socket.socket, placement: Placement, plan: plans.Plan, door: int | None) -> None:
        self._covers.begin(placement, plan.mounts)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, keeper.PLAN_BYTES)
        channel.setblocking(False)
        with contextlib.ExitStack() as opened:
            given: list[int] = []
            image = placement.spec.image
            if self._is_root:
                given += await self._layers(plan, placement.index, opened)
                by_root = plan.own_kernel is not None
                sources = await self._trees.open(plan.mounts, placement.index, (image.uid, image.gid), by_root=by_root)
                for fd in sources:
                    opened.callback(os.close, fd)
                given += sources
            socket.send_fds(channel, [plan.encode()], given if door is None else [*given, door])

    async def _layers(self, plan: plans.Plan, index: int, opened: contextlib.ExitStack) -> list[int]:
        """Trees with the ids of the image on disk: in the box's block they are its own."""
        block = await self._launcher.id_map(*ids.block(index).texts())
        opened.callback(os.close, block)
        given = []
        for number, path in enumerate((*plan.layers, plan.upper)):
            tree = _opened(path, () if number else plan.pinned)
            opened.callback(os.close, tree)
            trees.map_owner(tree, path, block)
            given.append(tree)
        return given

    async def _bring_up(
        self, placement: Placement, held: ProcessHandle, channel: socket.socket, attaching: asyncio.Future[None]
    ) -> None:
        """It asks twice: the runtime starts when its cgroup holds it, and init runs when its covers are on record."""
        try:
            await within(readable(channel.fileno()), limits.START_TIMEOUT_S)
        except TimeoutError:
            raise Unavailable("the box could not be built in time", hint="run `paddock doctor`", code="start") from None
        if channel.recv(len(_BUILT), socket.MSG_PEEK) == _BUILT:
            channel.recv(len(_BUILT))
            await asyncio.shield(attaching)
            channel.send(b"go")
        *held.overlays, held.namespace = await ready(channel)
        self._covers.keep(placement, held.namespace)
        channel.send(b"run")

    def _plan(self, placement: Placement, *, sealed: bool) -> plans.Plan:  # type: ignore[override]
        spec = placement.spec
        runtime, program = runtimes.find(spec.runtime)
        ground = Ground(
            etc=self._view.shared()[0],
            shims=shims.prepare(f"{self._state_dir}/view/shims", {}, (plans.INTERPRETER,)),
            storage=placement.directory,
            toolchains=Toolchains(),
            uid=0,
            gid=0,
            is_root=self._is_root,
            memory_bytes=bounds.memory_bytes(spec.limits),
            memory_by_kernel=self._bounds.holds_memory(),
            sealed=sealed,
            localhost_ports=placement.localhost_ports if sealed else (),
            home_layers=tuple(map(self._tree, spec.home_layers)),
            view=placement.view,
            tools=placement.tools,
        )
        return plans.make(
            spec,
            ground,
            layers=tuple(map(self._tree, spec.layers)),
            python=self._interpreter(),
            ids=ids.of_caller(placement.index),
            runtime=runtime,
            program=program,
            is_saved=bool(placement.memory),
        )

    # -- while it runs, and after --------------------------------------------------------------------------------------

    def reseal(self, placement: Placement, door: int) -> None:
        init_socket.reseal(placement, door, _KEEPER)

    async def save(self, placement: Placement) -> str:
        return await asyncio.to_thread(saving.save, placement, lambda: self._origin(placement.spec))

    def _origin(self, spec: BoxSpec) -> str:
        """What a saved kernel is only good with: the program that saved it, and the files that init runs on."""
        _, program = runtimes.find(spec.runtime)
        _, _, files = os.path.basename(self._interpreter()).partition("-")
        return f"{gvisor.version(program)} {files}"

    def _interpreter(self) -> str:
        return interpreter.prepare(f"{self._state_dir}/interpreter")

    def adopt(self, placement: Placement, evidence: Evidence | None) -> ProcessHandle | None:
        kernel_uid = _first_id(placement.index) if self._is_root else self._caller_uid
        found = handle.find(placement, evidence, ContainerHandle) or handle.find(
            placement, init_socket.ask_identity(placement, kernel_uid, _KEEPER), ContainerHandle
        )
        if found is not None and (placement.spec.mode is WorkspaceMode.REVIEW or self._covers.names(placement)):
            *found.overlays, found.namespace = init_socket.ask_handles(placement, _KEEPER) or [-1]
        return found

    def clean(self, placement: Placement) -> str:
        init_socket.remove(placement, _KEEPER)
        return super().clean(placement)

    # -- what it is ----------------------------------------------------------------------------------------------------

    def environment(self, placement: Placement) -> dict[str, str]:
        """As in a process box, without what is the host's."""
        image = placement.spec.image
        user = image.user.partition(":")[0] or "root"
        system = tuple(image.path.split(":")) if image.path else SYSTEM_PATH
        known = self._view.environment(placement, Toolchains(), system)
        return {**known, "USER": user, "LOGNAME": user, "SHELL": _SHELL}


def _opened(path: str, pinned: tuple[int, ...]) -> int:
    try:
        return root.open_layer(path, pinned)
    except OSError as error:
        if not pinned:
            raise
        hint = "put it back, or make the box anew"
        raise Unavailable(f"the box could not start: {error.strerror}", hint=hint, code="replaced") from error


def _first_id(index: int) -> int:
    return ids.block(index).uids[0][1]


def _prepare_root(placement: Placement) -> None:
    """Where a box's changes to its root lie; what is above is private to the user."""
    place = f"{placement.directory}/root"
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{placement.directory}/{branch.WORK}", 0o700)
    for path in (place, f"{place}/upper", f"{place}/work"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)
            os.chmod(path, 0o755)  # noqa: S103  as the root of an image is
    if not placement.spec.layers:
        raise Unavailable(
            "a container box needs a root file system", hint="name a template: -t DIRECTORY or -t FILE", code="no-root"
        )

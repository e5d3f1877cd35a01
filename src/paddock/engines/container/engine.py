"""The container engine: the launcher, seal, limits and workspace of process boxes, on a root file system of its own
that an OCI runtime starts init in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.engines.container import ids, interpreter, keeper, runtimes
from paddock.engines.container import plan as plans
from paddock.engines.container.handle import ContainerHandle
from paddock.engines.process import bounds, handle, init_socket, kernel, shims, storage, trees
from paddock.engines.process.covers import Covers
from paddock.engines.process.engine import ProcessEngine, ready
from paddock.engines.process.operations import Ground
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from paddock.readiness import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.base import Placement
    from paddock.engines.process.handle import ProcessHandle
    from paddock.engines.process.warm import Launcher
    from paddock.model import Evidence

_KEEPER: Final = init_socket.KEEPER
_BUILT: Final = b'{"built": true}'
_FROZEN: Final = "frozen:"  # a layer that was a box's own changes (images/layers.py)
_SHELL: Final = "/bin/sh"  # what every image that has any has


class ContainerEngine(ProcessEngine):
    _handle = ContainerHandle

    def __init__(self, state_dir: str, launcher: Launcher, held: bounds.Bounds) -> None:
        super().__init__(state_dir, launcher, held)
        self._state_dir = state_dir
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
        frozen = [layer for layer in placement.spec.layers if layer.startswith(_FROZEN)]
        _prepare_root(placement, self._tree(frozen[-1]) if frozen else "")
        with init_socket.listening(placement, _KEEPER) as own, init_socket.listening(placement) as listener:
            if listening:
                listening()
            return await self._launch(placement, listener, own, door)

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
                given += await self._layers((*plan.layers, plan.upper), placement.index, opened)
                sources = await self._trees.open(plan.mounts, placement.index, (image.uid, image.gid))
                for fd in sources:
                    opened.callback(os.close, fd)
                given += sources
            socket.send_fds(channel, [plan.encode()], given if door is None else [*given, door])

    async def _layers(self, paths: tuple[str, ...], index: int, opened: contextlib.ExitStack) -> list[int]:
        """Trees with the ids of the image on disk: in the box's block they are its own."""
        block = await self._launcher.id_map(*ids.block(index).texts())
        opened.callback(os.close, block)
        given = []
        for path in paths:
            tree = kernel.open_tree(path, recursive=False)
            opened.callback(os.close, tree)
            trees.map_owner(tree, path, block)
            given.append(tree)
        return given

    async def _bring_up(
        self, placement: Placement, held: ProcessHandle, channel: socket.socket, attaching: asyncio.Future[None]
    ) -> None:
        """It asks twice: the runtime starts when its cgroup holds it, and init runs when its covers are on record."""
        try:
            await asyncio.wait_for(readable(channel.fileno()), limits.START_TIMEOUT_S)
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
            view=placement.view,
            tools=placement.tools,
        )
        return plans.make(
            spec,
            ground,
            layers=tuple(map(self._tree, spec.layers)),
            python=interpreter.prepare(f"{self._state_dir}/interpreter"),
            ids=ids.of_caller(placement.index),
            runtime=runtime,
            program=program,
        )

    def _tree(self, layer: str) -> str:
        """A directory of the user's, or one of the store's (images/layers.py)."""
        kind, _, name = layer.partition(":")
        return layer if layer.startswith("/") else f"{self._state_dir}/layers/{kind}/{name}/tree"

    # -- while it runs, and after --------------------------------------------------------------------------------------

    def reseal(self, placement: Placement, door: int) -> None:
        init_socket.reseal(placement, door, _KEEPER)

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
        user = placement.spec.image.user.partition(":")[0] or "root"
        return {**self._view.environment(placement, Toolchains()), "USER": user, "LOGNAME": user, "SHELL": _SHELL}


def _first_id(index: int) -> int:
    return ids.block(index).uids[0][1]


def _prepare_root(placement: Placement, like: str) -> None:
    """Where a box's changes to its root lie; what is above is private to the user. A new one is `like` the last one."""
    place = f"{placement.directory}/root"
    for path in (place, f"{place}/upper", f"{place}/work"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)
            os.chmod(path, 0o755)  # noqa: S103  as the root of an image is
            if like and path.endswith("/upper"):
                _make_like(path, os.stat(like))
    if not placement.spec.layers:
        raise Unavailable(
            "a container box needs a root file system", hint="name a template: -t DIRECTORY or -t FILE", code="no-root"
        )


def _make_like(path: str, status: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # of an id that only the box has: then it is root's
        os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, status.st_mode & 0o1777)

"""The composition of store, engines and boxes, and the verbs about a box as such: make, open, change, remove, show.

Verbs about commands, policies, jobs and what comes home are functions of the modules beside this one.
"""

from __future__ import annotations

import asyncio
import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents, limits
from paddock.errors import Unavailable, UserError
from paddock.model import BoxInfo, BoxRequest, BoxState, EngineName, Network, check_env
from paddock.runtime import departures
from paddock.runtime.background import Background
from paddock.runtime.flags import merge
from paddock.runtime.lifetimes import Lifetimes
from paddock.runtime.normalise import normalise, require_same_shape
from paddock.runtime.register import Register
from paddock.runtime.workspaces import Workspaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from paddock.engines.base import Engine
    from paddock.model import BoxId, BoxSpec
    from paddock.paths import Paths
    from paddock.reports import LeaveReport
    from paddock.runtime.box import Box
    from paddock.runtime.lifetimes import MakeWatch
    from paddock.runtime.network import Networks
    from paddock.store import Store

    MakeNetwork = Callable[[Mapping[BoxId, Box], Callable[[Box], Engine]], Networks]

_AT_ONCE = 32  # boxes ended side by side: most of it is waiting for the kernel


class Runtime:
    def __init__(
        self,
        paths: Paths,
        store: Store,
        engines: Mapping[EngineName, Engine],
        home: str,
        make_watch: MakeWatch,
        make_network: MakeNetwork | None = None,  # without one a box has its loopback and nothing else
    ) -> None:
        self.paths = paths
        self.engines = engines
        self.repairs: list[str] = []  # what recovery found and mended, for doctor
        self.departed: dict[str, LeaveReport] = {}  # what boxes of one command left
        self.background = Background()
        self.register = Register(paths, store, self.background)
        self.boxes = self.register.boxes
        self.find = self.register.find
        self.workspaces = Workspaces(f"{paths.state}/placeholders", self.boxes)
        self.network = make_network(self.boxes, self.engine) if make_network else None
        self.lifetimes = Lifetimes(
            self.register,
            self.background,
            self.engine,
            self.workspaces,
            self.network,
            make_watch,
            (functools.partial(departures.look, self), functools.partial(departures.last, self)),
        )
        self._store = store
        self._home = home
        self._naming = asyncio.Lock()  # a name or an identity is looked up and taken in one step

    def __repr__(self) -> str:
        return f"<Runtime {len(self.boxes)} boxes>"

    async def close(self) -> None:
        await self.background.close()
        self.lifetimes.let_go()
        self.workspaces.staleness.close()
        self._store.close()

    def engine(self, box: Box) -> Engine:
        return self.engines[box.row.spec.engine]

    # -- create and open -----------------------------------------------------------------------------------------------

    async def create(self, request: BoxRequest) -> Box:
        async with self.lifetimes.admission, self._naming:
            return await self._create(request)

    async def _create(self, request: BoxRequest) -> Box:
        if len(self.boxes) >= limits.BOXES_MAX:
            raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some with `paddock prune`", code="too-many")
        spec = self._normalised(request)
        if spec.engine not in self.engines:
            raise Unavailable(f"engine {spec.engine.value!r} is not available", code="no-engine")
        if self.network is not None:
            spec = replace(spec, network=self.network.policies.take_project(spec.network, spec.workspace))
        return await self.register.add(spec)

    def _normalised(self, request: BoxRequest) -> BoxSpec:
        return normalise(request, private=self.paths.private, home=self._home, taken=self.register.taken())

    async def open(self, request: BoxRequest) -> tuple[Box, bool]:
        """The box of this agent and directory, made when there is none; says whether it is new."""
        async with self._naming:
            existing = self.register.same(request)
            if existing is None:
                return await self._create(request), True
        require_same_shape(existing.row.spec, request, self._normalised(replace(request, name="")))
        if request.env:
            await self.set_env(existing.name, request.env, ())
        if request.network != Network():
            await self.set_network(existing, lambda network: merge(network, request.network))
        return existing, False

    # -- change --------------------------------------------------------------------------------------------------------

    async def set_env(self, name: str, values: dict[str, str], removed: tuple[str, ...]) -> None:
        """Takes effect for the next command; nothing is restarted."""
        box = self.find(name)
        async with box.lock:
            env = {key: value for key, value in {**box.row.spec.env, **values}.items() if key not in removed}
            await self.register.change(box, replace(box.row.spec, env=check_env(env)))

    async def set_network(self, box: Box, change: Callable[[Network], Network]) -> None:
        """Change a box's own rules; in force, and on disk, when this returns."""
        async with box.lock:
            network = change(box.row.spec.network)
            if network != box.row.spec.network:
                await self.register.change(box, replace(box.row.spec, network=network))
        if self.network is not None:
            await self.network.push(box)

    # -- stop and remove -----------------------------------------------------------------------------------------------

    async def stop(self, name: str, grace_s: float = limits.STOP_GRACE_S) -> None:
        box = self.find(name)
        async with box.lock:
            await self.lifetimes.end(box, grace_s=grace_s)

    async def remove(self, name: str, *, force: bool) -> None:
        await self.lifetimes.remove(self.find(name), force=force)

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
                await self.lifetimes.remove(box, force=force)
            return box.name

        done = await asyncio.gather(*(remove(box) for box in boxes), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException) and not isinstance(error, UserError):  # started, or gone, meanwhile
                raise error
        return [name for name in done if isinstance(name, str)]

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

    def agent_command(self, box: Box) -> tuple[str, ...]:
        agent = agents.find(box.row.spec.agent)
        return agent.interactive if os.access(f"/bin/{agent.interactive[0]}", os.X_OK) else agent.fallback

    def environment(self, box: Box) -> dict[str, str]:
        return {**self.engine(box).environment(box.placement), **box.row.spec.env}

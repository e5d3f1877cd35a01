"""The composition of store, engines and boxes, and the verbs about a box as such: make, open, change, remove, show.

Verbs about commands, policies, jobs and what comes home are functions of the modules beside this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents, limits
from paddock.errors import Unavailable, UserError
from paddock.images.layers import Layers
from paddock.model import BoxInfo, BoxRequest, BoxState, Budget, EngineName, Network, WorkspaceMode, check_env
from paddock.runtime import (
    belongings,
    departures,
    furnishing,
    leasing,
    mcpboxes,
    removal,
    sshagents,
    templates,
    workspaces,
)
from paddock.runtime.background import Background
from paddock.runtime.catalogue import Catalogue
from paddock.runtime.credentials import Credentials
from paddock.runtime.flags import canonical, merge
from paddock.runtime.flushing import Flushing
from paddock.runtime.kept import Kept
from paddock.runtime.lifetimes import Lifetimes, Visits
from paddock.runtime.mcpsockets import Sockets
from paddock.runtime.normalise import check_agent, free_name, normalise, require_same_shape, with_agent
from paddock.runtime.register import Register
from paddock.runtime.runlist import doing
from paddock.runtime.runs import Runs
from paddock.runtime.sshagents import Agents
from paddock.runtime.usages import Usages
from paddock.runtime.workspaces import Workspaces
from paddock.secrets.store import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from paddock.engines.base import Engine
    from paddock.images.layers import LayerId
    from paddock.model import BoxId, BoxSpec, SecretUse
    from paddock.paths import Paths
    from paddock.reports import LeaveReport, RemovalInfo
    from paddock.runtime.box import Box
    from paddock.runtime.lifetimes import MakeWatch
    from paddock.runtime.network import Networks
    from paddock.runtime.templates import Rooted
    from paddock.secrets.boxes import Held
    from paddock.secrets.value import Secret
    from paddock.store import Store

    MakeNetwork = Callable[[Mapping[BoxId, Box], Callable[[Box], Engine], Credentials, Usages], Networks]


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
        self.flushing = Flushing(paths.layers)
        self.register = Register(paths, store, self.background)
        self.catalogue = Catalogue(store, self.background, paths.templates)
        self.boxes = self.register.boxes
        self.find = self.register.find
        self.workspaces = Workspaces(f"{paths.state}/placeholders", self.boxes)
        self.kept = Kept(paths.kept, paths.trash)
        self.usages = Usages(paths.usage, self.background.queue, self._overspent)
        self.runs = Runs(paths.runs)
        self.credentials = Credentials(opened(paths.secrets, os.environ), os.environ, self.usages.spending)
        parts = self.boxes, self.engine, self.credentials, self.usages
        self.network = make_network(*parts) if make_network else None
        self.lifetimes = Lifetimes(
            self.register,
            self.background,
            self.engine,
            self.workspaces,
            self.network,
            make_watch,
            Visits(
                furnish=functools.partial(furnishing.furnish, self),
                look=functools.partial(departures.look, self),
                last=functools.partial(departures.last, self),
                unasked=functools.partial(departures.note, self, commits=False),
            ),
            (
                Agents(self.background.later),
                Sockets(self.background.later, functools.partial(mcpboxes.start, self)),
            ),
        )
        self.builds = asyncio.Semaphore(limits.BUILDS_MAX)
        self.home = home
        self._store = store
        self._naming = asyncio.Lock()  # a name or an identity is looked up and taken in one step

    def __repr__(self) -> str:
        return f"<Runtime {len(self.boxes)} boxes>"

    async def close(self) -> None:
        await self.background.close()
        await self.flushing.close()
        self.lifetimes.let_go()
        self.workspaces.staleness.close()
        self._store.close()

    def engine(self, box: Box) -> Engine:
        return self.engines[box.row.spec.engine]

    def _overspent(self, box: Box, reason: str) -> None:
        self.background.later(self.lifetimes.overspent(box, reason), f"end {box.name}")

    # -- create and open -----------------------------------------------------------------------------------------------

    async def create(self, request: BoxRequest, given: Mapping[str, Secret] | None = None, place: str = "") -> Box:
        """`given` are the values of secrets that the caller's environment has; `place` as normalise() has it."""
        await self.register.freed(request.name)
        async with self._unpacked(request, place) as rooted, self.lifetimes.admission, self._naming:
            return await self._create(request, given or {}, place, rooted)

    @contextlib.asynccontextmanager
    async def _unpacked(self, request: BoxRequest, place: str = "") -> AsyncIterator[Rooted | None]:
        """The image of a file may take long: it is unpacked before others have to wait for us, and kept meanwhile."""
        if not templates.is_file(request.template):
            yield None
            return
        spec = self._normalised(request, place)
        layers = Layers(self.paths.layers)
        async with leasing.held(layers) as lease:
            yield await asyncio.to_thread(templates.from_file, layers, lease, spec.template)

    async def _create(
        self, request: BoxRequest, given: Mapping[str, Secret], place: str = "", rooted: Rooted | None = None
    ) -> Box:
        if len(self.boxes) >= limits.BOXES_MAX:
            raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some with `paddock prune`", code="too-many")
        spec = self._normalised(request, place)
        if request.mcp:
            spec = await asyncio.to_thread(mcpboxes.named, self, spec, request.mcp)
        if spec.engine not in self.engines:
            raise Unavailable(f"engine {spec.engine.value!r} is not available", code="no-engine")
        templates.refuse_planting(spec, self.boxes.values())
        if spec.template:
            templates.refuse_planted(spec, self.boxes.values())
            spec = rooted(spec) if rooted else await templates.resolve(self.catalogue, self.paths.layers, spec)
            spec = replace(spec, base=next(reversed(spec.layers), ""))
        if spec.mode is not WorkspaceMode.LIVE:
            await asyncio.to_thread(workspaces.check, spec)
        if self.network is not None:
            spec = replace(spec, network=self.network.policies.take_project(spec.network, spec.workspace))
        held = await asyncio.to_thread(self.credentials.hold, spec.secrets, spec.env) if spec.secrets else ()
        box = await self.register.add(spec)
        if held:
            await self._lend(box, held, given)
        return box

    async def add(self, like: Box, spec: BoxSpec, fill: Callable[[str], None]) -> Box:
        """A box with files from the start. It has the secrets of one that it is `like`, by placeholders of its own."""
        async with self._naming:
            if len(self.boxes) >= limits.BOXES_MAX:
                raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some", code="too-many")
            spec = replace(spec, name=free_name(spec.name, self.register.taken()))
            held = await asyncio.to_thread(self.credentials.hold, spec.secrets, spec.env) if spec.secrets else ()
            box = await self.register.add(spec, fill)
        if held:
            await self._lend(box, held, self.credentials.given(like))
        return box

    async def create_with(
        self, request: BoxRequest, made_of: Callable[[BoxSpec], BoxSpec], fill: Callable[[str, BoxSpec], None]
    ) -> Box:
        """A box as it is asked for, with files from the start; whoever has these holds a lease of their layers."""
        await self.register.freed(request.name)
        async with self.lifetimes.admission, self._naming:
            if len(self.boxes) >= limits.BOXES_MAX:
                raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some", code="too-many")
            spec = made_of(self._normalised(request))
            templates.refuse_planting(spec, self.boxes.values())
            if spec.engine not in self.engines:
                raise Unavailable(f"engine {spec.engine.value!r} is not available", code="no-engine")
            if self.network is not None:
                spec = replace(spec, network=self.network.policies.take_project(spec.network, spec.workspace))
            return await self.register.add(spec, lambda directory: fill(directory, spec))

    async def add_step(self, spec: BoxSpec) -> Box:
        """The box of a step of a build, which has neither workspace nor secrets."""
        async with self.lifetimes.admission, self._naming:
            if len(self.boxes) >= limits.BOXES_MAX:
                raise UserError(f"{limits.BOXES_MAX} boxes exist", hint="remove some", code="too-many")
            return await self.register.add(replace(spec, name=free_name(spec.name, self.register.taken())))

    async def discard_layers(self, layers: Layers) -> list[LayerId]:
        """Not while a box is being made, whose layers are in no row yet."""
        async with self._naming:
            return await asyncio.to_thread(layers.discard, self.register.layers)

    async def _lend(self, box: Box, held: tuple[Held, ...], given: Mapping[str, Secret]) -> None:
        try:
            await asyncio.to_thread(self.credentials.keep, box, held)
        except BaseException:
            await self.lifetimes.undo(box)
            raise
        self.credentials.give(box, given)

    def _normalised(self, request: BoxRequest, place: str = "") -> BoxSpec:
        taken = self.register.taken()
        return normalise(request, private=self.paths.private, home=self.home, taken=taken, place=place)

    async def open(self, request: BoxRequest, given: Mapping[str, Secret] | None = None) -> tuple[Box, bool]:
        """The box of this agent and directory, made when there is none; says whether it is new."""
        await self.register.freed(request.name)
        is_new = self.register.same(request) is None
        async with self._unpacked(request) if is_new else contextlib.nullcontext() as rooted, self._naming:
            existing = self.register.same(request)
            if existing is None:
                return await self._create(request, given or {}, rooted=rooted), True
        require_same_shape(existing.row.spec, request, self._normalised(replace(request, name="")))
        await self._redefine(existing, request.definition)
        if request.env:
            await self.set_env(existing.name, request.env, ())
        if request.network != Network():
            await self.set_network(existing, lambda network: merge(network, request.network))
        await self.set_budget(existing, request.budget)
        await self.lend(existing, request.secrets, given or {})
        return existing, False

    async def _redefine(self, box: Box, definition: str) -> None:
        """The user's file of an agent has changed; what the box may reach only grows by it, as by flags."""
        async with box.lock:
            if definition == box.row.spec.definition:
                return
            await self.register.change(box, replace(box.row.spec, definition=definition))
        agent = agents.of(box.row.spec.agent, definition)
        await self.set_network(box, lambda network: canonical(with_agent(network, agent, definition)))

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

    async def set_budget(self, box: Box, budget: Budget) -> None:
        """Change what was said of it; in force, and on disk, when this returns. What was spent stays spent."""
        async with box.lock:
            wanted = budget.over(box.row.spec.budget)
            if wanted == box.row.spec.budget:
                return
            await self.register.change(box, replace(box.row.spec, budget=wanted))
            self.usages.begins(box)
            if box.handle is not None:
                self.usages.runs(box)
        self.credentials.changes += 1
        if self.network is not None:
            await self.network.push_secrets([box])

    async def lend(self, box: Box, uses: Sequence[SecretUse], given: Mapping[str, Secret]) -> None:
        """More secrets for a box, and the values that the caller's environment has now; in force when this returns.

        Commands that start from now on have the placeholders of what is new; those it had stay as they are.
        """
        async with box.lock:
            wanted = tuple({use.name: use for use in (*box.row.spec.secrets, *uses)}.values())
            if wanted != box.row.spec.secrets:
                spec = replace(box.row.spec, secrets=wanted)
                held = await asyncio.to_thread(self.credentials.hold, wanted, spec.env, box)
                await asyncio.to_thread(self.credentials.keep, box, held)
                await self.register.change(box, spec)
                self.credentials.changes += 1
        self.credentials.give(box, given)
        if self.network is not None and self.credentials.is_behind(box):
            await self.network.push_secrets([box])

    async def set_agent(self, box: Box, path: str) -> None:
        """The user's ssh-agent is another one, as after they logged in again."""
        async with box.lock:
            if box.row.spec.ssh_keys and box.row.spec.ssh_socket != check_agent(path):
                await self.register.change(box, replace(box.row.spec, ssh_socket=path))

    async def secrets_changed(self, names: Collection[str]) -> int:
        """Secrets were set or removed: running boxes use what is there now. Returns how many have one of them."""
        self.credentials.changes += 1
        uses = [box for box in self.boxes.values() if any(use.name in names for use in box.row.spec.secrets)]
        running = [box for box in uses if box.handle is not None]
        if self.network is not None:
            await self.network.push_secrets(running)
        return len(running)

    # -- stop and remove -----------------------------------------------------------------------------------------------

    async def stop(self, name: str, grace_s: float = limits.STOP_GRACE_S) -> None:
        box = self.find(name)
        async with box.lock:
            await self.lifetimes.end(box, grace_s=grace_s)

    async def remove(self, name: str, *, force: bool, reviewed: bool = False, keep_state: bool = False) -> RemovalInfo:
        """`reviewed`: a review holds no change that is not applied; see removal.py."""
        return await removal.remove(self, self.find(name), force=force, reviewed=reviewed, keep_state=keep_state)

    async def prune(self, reviewed: Collection[str] = ()) -> list[RemovalInfo]:
        """Remove every box that has run and is not running; `reviewed` are ids of those without a change to apply."""
        gone = [box for box in self.boxes.values() if box.handle is None and box.state is not BoxState.CREATED]
        return await removal.remove_all(self, gone, force=False, reviewed=reviewed)

    async def reset(self) -> list[RemovalInfo]:
        """Remove every box, and what was kept of earlier ones."""
        await belongings.drop_kept(self)
        return await removal.remove_all(self, list(self.boxes.values()), force=True)

    # -- looking -------------------------------------------------------------------------------------------------------

    def inspect(self, name: str) -> BoxInfo:
        return self.info(self.find(name))

    def info(self, box: Box) -> BoxInfo:
        limits = self.engine(box).limits(box.placement, running=box.handle is not None)
        return box.info(limits, network=self._network_word(box), doing=doing(self, box))

    def brief(self, box: Box) -> BoxInfo:
        """Without its limits, which take a look at the kernel."""
        return box.info(network=self._network_word(box), doing=doing(self, box))

    def _network_word(self, box: Box) -> str:
        return self.network.word(box) if self.network is not None else "none"

    async def describe(self, name: str) -> tuple[str, ...]:
        box = self.find(name)
        async with box.lock:
            is_new = not box.view and box.handle is None
            await self.workspaces.look(box)
            if is_new:
                box.view += await asyncio.to_thread(furnishing.foreseen, self, box)
        return self.engine(box).describe(box.placement)

    def environment(self, box: Box) -> dict[str, str]:
        lent = self.credentials.environment(box) | sshagents.environment(box.row.spec)
        own = {**box.agent.env, **box.row.spec.env}
        return {**self.engine(box).environment(box.placement), **own, **lent}

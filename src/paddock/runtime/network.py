"""Every box's way out: its door to the gateway, its policy, its certificates, its log and its published ports.

The gateway is told of a box while the box is being made, because a box proves its seal before it says that it is ready.
A gateway that is new (the first, or one after a crash) gets every box that runs, by a new door, before it counts as
there. What is decided nowhere else is decided here by one rule: when in doubt a box has no network.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.fs import notify
from paddock.gateway import audit, client, trust
from paddock.gateway.control import BoxNet
from paddock.model import BoxId
from paddock.readiness import within
from paddock.runtime import hostfacts
from paddock.runtime.attendance import Attendance
from paddock.runtime.netlogs import NetLogs
from paddock.runtime.policies import happened, of_box
from paddock.runtime.roots import Roots
from paddock.runtime.spares import AUTHORITY, DENIALS, Spares
from paddock.runtime.supervisor import Supervisor
from paddock.runtime.taking import Taking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from paddock.engines.base import Engine, Handle, Placement
    from paddock.gateway.client import Gateway
    from paddock.gateway.control import BoxUsage, Hello, HostFacts
    from paddock.model import Publish
    from paddock.paths import Paths
    from paddock.policy import Policy
    from paddock.runtime.box import Box
    from paddock.runtime.credentials import Credentials
    from paddock.runtime.policies import Policies
    from paddock.runtime.usages import Usages

log = logging.getLogger(__name__)
_BACKLOG = 128
_AT_ONCE = 16  # boxes sealed again side by side
_DROP_S = 1.0
_PRUNE_EVERY = 16  # removals
_CLOSED = ("none", "deny", "rules")  # words of a network that nobody is asked about
_FACTS_EVERY_S = 5.0  # the host's addresses have no file to watch, nor has a file that is another one's mount


class Networks:
    """What the runtime asks for; `boxes` are its own, of which those with a handle run."""

    def __init__(
        self,
        paths: Paths,
        policies: Policies,
        environ: Mapping[str, str],
        boxes: Mapping[BoxId, Box],
        engine_of: Callable[[Box], Engine],
        credentials: Credentials,
        usages: Usages,
    ) -> None:
        self.policies = policies
        self.logs = NetLogs(paths.network)
        self._boxes = boxes
        self._engine_of = engine_of
        self._environ = environ
        self._credentials = credentials
        self._usages = usages
        self.taking = Taking()
        self._roots = Roots()
        self._facts: HostFacts | None = None
        self.supervisor = Supervisor(paths.run, paths.gateway_log, self._bring_in)
        self.recovered = asyncio.Event()  # the boxes of an earlier daemon are known
        self._changed = asyncio.Event()  # of the policy files
        self._added: dict[str, Gateway] = {}  # which gateway has a box
        self._given: dict[str, Policy] = {}  # what it was told to hold a box to
        self._removed = 0
        self.attendance = Attendance(self.supervisor)
        self.editing = asyncio.Lock()  # of the user's policy file
        self._spares = Spares(f"{paths.state}/spare")

    def __repr__(self) -> str:
        return f"<Networks {self.supervisor!r}>"

    async def run(self) -> None:
        """Keep the gateway running, and keep telling it what changes on the host; for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor.run(), name="gateway")
            group.create_task(self._watch_host(), name="host facts")
            group.create_task(self._watch_files(), name="policy files")
            group.create_task(self._push_changes(), name="policies")
            group.create_task(self._spares.fill(), name="spares")

    async def close(self) -> None:
        """Let go; the gateway goes on."""
        await self._spares.close()
        self.taking.close()
        self.supervisor.close()
        self.policies.close()

    # -- start and end of a box ----------------------------------------------------------------------------------------

    async def start(self, box: Box, listening: Callable[[], None] | None) -> Handle:
        """Make a box with its way out. UserError when a policy file is broken: nothing is started on a guess."""
        self.look()
        self.policies.require_good()
        gateway = await self.supervisor.ready()
        try:
            return await self._start(box, gateway, listening)
        except Unavailable as error:
            if error.code != client.DIED and not gateway.ended:
                raise
        return await self._start(box, await self.supervisor.ready(), listening)

    async def _start(self, box: Box, gateway: Gateway, listening: Callable[[], None] | None) -> Handle:
        if self._credentials.concern(box):
            self._usages.begins(box)
        self._spares.take(net_directory(box), self.logs.paths(box.row.id))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            placement = self._placement(box)
            making: asyncio.Task[Handle] | None = None
            well = False
            try:
                async with asyncio.TaskGroup() as group:  # when one fails the other is ended
                    making = group.create_task(self._engine_of(box).start(placement, ours.fileno(), listening))
                    group.create_task(self._add(box, gateway, theirs.fileno()))
                self._added[box.row.id] = gateway
                await self._catch_up(box, gateway)
                while self._credentials.is_behind(box):  # who changed a secret meanwhile told only boxes that ran
                    await self._lend(box, gateway)
                well = True
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
            finally:
                if not well:
                    self._added.pop(box.row.id, None)
                    self._usages.rests(box)
                    await _undo(self._engine_of(box), placement, making)
                    await _drop(gateway, box.row.id)
        if self.policies.word(*of_box(box)) in _CLOSED:
            box.notes += self._credentials.notes(box, self.policies.evaluator(*of_box(box)))
        return making.result()

    async def _catch_up(self, box: Box, gateway: Gateway) -> None:
        """Whoever changed a policy meanwhile told only boxes that ran: at the return nothing is older than now."""
        while (policy := self.policies.of(*of_box(box))) != self._given.get(box.row.id):
            try:
                await self._give(box, gateway, policy)
            except PaddockError as error:
                log.warning("the network of %s stays closed: %s", box.name, error)
                await _drop(gateway, box.row.id)
                return

    async def _lend(self, box: Box, gateway: Gateway) -> None:
        """Tell a gateway that has a box what its secrets are now. A box of which that fails loses its network: it could
        go on with a value that was taken back."""
        async with self._credentials.telling(box):
            try:
                await self._roots.tell(gateway)
                await gateway.set_secrets(box.row.id, await self._credentials.document(box))
                while self._credentials.is_behind(box):  # who gave a value meanwhile found no gateway to tell
                    await gateway.set_secrets(box.row.id, await self._credentials.document(box))
            except (OSError, PaddockError) as error:
                log.warning("the network of %s stays closed: %s", box.name, error)
                await _drop(gateway, box.row.id)

    async def _give(self, box: Box, gateway: Gateway, policy: Policy) -> int:
        self._given.pop(box.row.id, None)
        if _looks_into(policy):
            await self._roots.tell(gateway)
        closed = await gateway.set_policy(box.row.id, policy)
        self._given[box.row.id] = policy
        return closed

    def held(self, box: Box) -> bool:
        """Whether the gateway that serves has this box; asked once it counts as running, for another may have come."""
        gateway = self.supervisor.gateway
        return gateway is None or self._added.get(box.row.id) is gateway

    def _placement(self, box: Box) -> Placement:
        ports = self.policies.evaluator(*of_box(box)).localhost_ports()
        return replace(box.placement, localhost_ports=ports[: limits.LOCALHOST_PORTS_MAX])

    async def _add(self, box: Box, gateway: Gateway, door: int) -> None:
        if not self._credentials.concern(box):
            await self._enter(box, gateway, door, b"")
            return
        await self._roots.tell(gateway)
        async with self._credentials.telling(box):
            await self._enter(box, gateway, door, await self._credentials.document(box))
        self._usages.runs(box)

    async def _enter(self, box: Box, gateway: Gateway, door: int, secrets: bytes) -> None:
        with contextlib.ExitStack() as stack:
            halves = stack.enter_context(self.logs.opened(box.row.id))
            denials = audit.open_log(denials_path(box), 0o644)
            stack.callback(os.close, denials)
            listeners = [stack.enter_context(_listener(published)) for published in box.row.spec.network.publish]
            policy = self.policies.of(*of_box(box))
            if _looks_into(policy):
                await self._roots.tell(gateway)
            await gateway.add(
                BoxNet(
                    id=box.row.id,
                    name=box.name,
                    attended=self.attendance.someone(box.row.id),
                    publish=tuple(published.box_port for published in box.row.spec.network.publish),
                ),
                door=door,
                policy=policy,
                audit=halves,
                denials=denials,
                authority=_authority(box),
                secrets=secrets,
                listeners=[listener.fileno() for listener in listeners],
            )
            self._given[box.row.id] = policy

    async def left(self, box: Box) -> None:
        """A box ended: its connections and its ports go with it."""
        self._added.pop(box.row.id, None)
        self._given.pop(box.row.id, None)
        self._usages.rests(box)
        self.taking.end(box)
        if gateway := self.supervisor.gateway:
            try:
                await within(_drop(gateway, box.row.id), _DROP_S)
            except TimeoutError:
                log.warning("the gateway does not let go of %s", box.name)

    def forget(self, box_id: str) -> None:
        """A box is removed."""
        self.logs.forget(box_id)
        self._credentials.forget(box_id)
        self._usages.forget(box_id)
        self._removed += 1
        if self._removed % _PRUNE_EVERY == 0:
            self.logs.prune(self._boxes.keys())
            self._usages.prune(self._boxes.keys())

    # -- a new gateway -------------------------------------------------------------------------------------------------

    async def _bring_in(self, gateway: Gateway, hello: Hello) -> None:
        """Give a gateway everything: what it already has from an earlier daemon it keeps, with today's policy."""
        await self.recovered.wait()
        gateway.on_usage = self._heard
        self._facts = hostfacts.read(self._environ)
        self.policies.set_own_addresses(self._facts.addresses)
        await gateway.set_host(self._facts)
        for stale in set(hello.boxes) - self._running().keys():
            await gateway.drop(stale)
        limit = asyncio.Semaphore(_AT_ONCE)
        seen: set[str] = set()
        while fresh := [box for box_id, box in self._running().items() if box_id not in seen]:
            seen |= {box.row.id for box in fresh}
            await asyncio.gather(*(self._take(box, gateway, hello, limit) for box in fresh))
        while late := [box for box in self._running().values() if self._is_behind(box, gateway)]:
            await asyncio.gather(*(self._catch_up(box, gateway) for box in late))

    def _heard(self, usage: BoxUsage) -> None:
        box = self._boxes.get(BoxId(usage.id))
        if box is not None:
            self._usages.heard(box, usage)

    async def _ask_usage(self, box: Box, gateway: Gateway) -> None:
        """What it spent while no daemon listened."""
        if usage := await gateway.usage(box.row.id):
            self._usages.heard(box, usage)

    async def count(self, box: Box) -> None:
        """Have the gateway say what a box spent, down to its last request."""
        gateway = self.supervisor.gateway
        if gateway is not None and self._added.get(box.row.id) is gateway and self._credentials.concern(box):
            await self._ask_usage(box, gateway)

    def _is_behind(self, box: Box, gateway: Gateway) -> bool:
        if self._added.get(box.row.id) is not gateway or box.row.id not in self._given:
            return False  # it is closed
        return self._given[box.row.id] != self.policies.of(*of_box(box))

    def _running(self) -> dict[BoxId, Box]:
        return {box_id: box for box_id, box in self._boxes.items() if box.handle is not None}

    async def _take(self, box: Box, gateway: Gateway, hello: Hello, limit: asyncio.Semaphore) -> None:
        """Secrets come when they come: looking one up may take its owner's finger, and nobody else waits for that."""
        async with limit:
            try:
                if box.row.id in hello.boxes:
                    await self._give(box, gateway, self.policies.of(*of_box(box)))
                    await self._go_on(box, gateway)
                elif box.row.spec.secrets:
                    self.taking.begin(box, self._seal_slowly(box, gateway))
                else:
                    await self.seal_again(box, gateway)
            except (OSError, PaddockError) as error:
                if gateway.ended:
                    raise
                log.warning("the network of %s stays closed: %s", box.name, error)
                await _drop(gateway, box.row.id)  # one that was taken over would go on by an older policy

    async def _go_on(self, box: Box, gateway: Gateway) -> None:
        """With a box that the gateway has kept; it has what the box's secrets were."""
        if self._credentials.concern(box):
            await self._ask_usage(box, gateway)
            self._usages.runs(box)
        self._added[box.row.id] = gateway
        if box.row.spec.secrets:
            self.taking.begin(box, self._lend(box, gateway))
        elif self._credentials.concern(box):
            await self._lend(box, gateway)

    async def _seal_slowly(self, box: Box, gateway: Gateway) -> None:
        try:
            await self.seal_again(box, gateway)
            await self._catch_up(box, gateway)
        except (OSError, PaddockError) as error:
            log.warning("the network of %s stays closed: %s", box.name, error)
            await _drop(gateway, box.row.id)

    async def seal_again(self, box: Box, gateway: Gateway | None = None) -> None:
        """Give a running box to a gateway that does not have it, by a new door."""
        gateway = gateway or await self.supervisor.ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            await self._add(box, gateway, theirs.fileno())
            reseal = functools.partial(self._engine_of(box).reseal, box.placement, ours.fileno())
            await asyncio.to_thread(reseal)
        self._added[box.row.id] = gateway

    # -- changes -------------------------------------------------------------------------------------------------------

    async def push(self, box: Box) -> int:
        """Put the policy of a box in force; returns how many connections that closed."""
        gateway = self.supervisor.gateway
        if box.handle is None or gateway is None:
            return 0  # a box that starts, or a gateway that comes up, gets the policy of then
        if box in self.taking and self._added.get(box.row.id) is not gateway:
            return 0  # so does a box that waits for its secrets
        return await self._give(box, gateway, self.policies.of(*of_box(box)))

    async def push_all(self) -> None:
        for box in list(self._boxes.values()):
            try:
                await self.push(box)
            except PaddockError as error:
                log.warning("the policy of %s was not changed: %s", box.name, error)

    async def push_secrets(self, boxes: Iterable[Box]) -> None:
        """Put other secrets in force for boxes that run."""
        gateway = self.supervisor.gateway
        if gateway is not None:
            await asyncio.gather(*(self._lend(box, gateway) for box in boxes if box.handle is not None))

    def look(self) -> None:
        """Take in what was just written to the policy files; running boxes get it in a moment."""
        if self.policies.reload():
            self._changed.set()

    async def _watch_files(self) -> None:
        async for _ in self.policies.changes():
            self._changed.set()

    async def _push_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.push_all()

    async def _watch_host(self) -> None:
        watched = notify.Files((hostfacts.RESOLV_CONF, hostfacts.HOSTS, *trust.HOST_BUNDLES))
        while True:
            await happened(watched, _FACTS_EVERY_S)
            watched.changed()
            facts = hostfacts.read(self._environ)
            gateway = self.supervisor.gateway
            if gateway is None:
                continue
            await self._roots.tell_again(gateway)
            if facts != self._facts:
                try:
                    await gateway.set_host(facts)
                except PaddockError as error:
                    log.warning("the gateway was not told of the host's change: %s", error)
                    continue
                self.policies.set_own_addresses(facts.addresses)
                self._facts = facts

    # -- showing -------------------------------------------------------------------------------------------------------

    def word(self, box: Box) -> str:
        """The network of a box in one word."""
        if box.handle is not None and self.supervisor.gateway is None:
            return "down"
        return self.policies.word(*of_box(box))


def net_directory(box: Box) -> str:
    return f"{box.directory}/net"


def denials_path(box: Box) -> str:
    return f"{net_directory(box)}/{DENIALS}"


def _looks_into(policy: Policy) -> bool:
    return any(layer.requests for layer in policy.layers)


def _authority(box: Box) -> bytes:
    try:
        with open(f"{net_directory(box)}/{AUTHORITY}", "rb") as file:
            return file.read()
    except FileNotFoundError:  # there is no OpenSSL
        return b""


@contextlib.contextmanager
def _listener(published: Publish) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in published.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((published.address, published.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            where = f"{published.address}:{published.port}"
            hint = "choose another port of the host"
            if error.errno == errno.EACCES:
                hint = "ports below 1024 are root's; choose another"
            raise UserError(f"cannot publish on {where}: {error.strerror}", hint=hint, code="port") from error
        yield listener


async def _undo(engine: Engine, placement: Placement, making: asyncio.Task[Handle] | None) -> None:
    """A box that was made while its gateway could not be told of it, or nobody wants it any more."""
    if making is not None and making.done() and not making.cancelled() and making.exception() is None:
        making.result().kill()
        making.result().close()
        await asyncio.to_thread(engine.clean, placement)


async def _drop(gateway: Gateway, box_id: str) -> None:
    with contextlib.suppress(PaddockError):
        await gateway.drop(box_id)

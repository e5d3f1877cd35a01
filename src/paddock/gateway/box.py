"""One box's network: its sockets, its policy, its open connections and its records.

Everything here is bounded per box, so that whatever one box does, another has its share: a box with as many connections
as it may have is not accepted from until some have ended, and the kernel refuses what no longer fits into its queue.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import socket
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError, Unavailable
from paddock.gateway import intake
from paddock.gateway.caller import Caller
from paddock.gateway.control import BoxStats
from paddock.gateway.door import Door
from paddock.gateway.flow import reset
from paddock.gateway.lookup import Lookup
from paddock.gateway.names import Names
from paddock.gateway.passage import Passage
from paddock.gateway.poller import READ
from paddock.gateway.rate import Rate
from paddock.gateway.records import Decided, Decision
from paddock.gateway.world import Reached
from paddock.limits import (
    FLOW_HALF_CLOSED_S,
    FLOW_IDLE_S,
    INTAKE_TOTAL_S,
    INTAKES_PER_BOX,
    QUERIES_PER_SECOND_MAX,
    QUERY_BURST_MAX,
    TLS_REFUSALS_PER_SECOND_MAX,
)
from paddock.policy import explain

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Sequence

    from paddock.gateway.audit import Audit, Denials
    from paddock.gateway.certificates import Leaves
    from paddock.gateway.control import BoxNet
    from paddock.gateway.door import Sockets
    from paddock.gateway.judging import Grant, Judge, Rules
    from paddock.gateway.world import World
    from paddock.policy import Host, Verdict

log = logging.getLogger(__name__)
_ACCEPTS: Final = 16  # at once, from one listener
_QUERIES: Final = 64
_QUERY_BYTES: Final = 4096
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_DENIED_NAMES_KEPT: Final = 256
_RECENT_S: Final = 5.0
_DENIED_NAME_S: Final = 60.0  # a denied name is recorded once in this time, however often it is asked for


class Box:
    """Takes over the door and the published listeners; audit, denials and leaves are its own too."""

    def __init__(
        self, world: World, net: BoxNet, judge: Judge, audit: Audit, denials: Denials, leaves: Leaves | None
    ) -> None:
        self.world = world
        self.poller = world.poller.share()
        self.net = net
        self.judge = judge
        self._audit = audit
        self._denials = denials
        self._leaves = leaves
        self.names = Names()
        self.lookup = Lookup(self.names, judge.evaluator, self._name_denied)
        self.lookup.asks = judge.rules.may_ask
        self._queries = Rate(QUERIES_PER_SECOND_MAX, QUERY_BURST_MAX)
        self._refusals = Rate(TLS_REFUSALS_PER_SECOND_MAX, TLS_REFUSALS_PER_SECOND_MAX)
        self._door: Door | None = None
        self._tcp: socket.socket | None = None
        self._udp: socket.socket | None = None
        self._local: dict[int, list[socket.socket]] = {}  # listeners of localhost, by port
        self._published: list[socket.socket] = []
        self._accepting: dict[socket.socket, Callable[[Caller], Coroutine[None, None, None]]] = {}
        self._held: set[socket.socket] = set()  # listeners that wait until there is room
        self._intakes: dict[asyncio.Task[None], socket.socket | None] = {}
        self._passages: set[Passage] = set()
        self._denied_names: OrderedDict[str, float] = OrderedDict()
        self._last_denied: tuple[str, float] | None = None
        self._connections = self._refused = self._asked = self._sent = self._received = 0
        self._closed = False
        world.boxes += 1

    def __repr__(self) -> str:
        state = "sealed" if self._tcp else "waiting"
        return f"<Box {self.net.id} {state}, {len(self._passages)} passages, {len(self._intakes)} intakes>"

    @property
    def is_alive(self) -> bool:
        """Whether someone in the box still holds the other end of its door."""
        return self._door is not None and self._door.is_open

    # -- sockets -------------------------------------------------------------------------------------------------------

    def open_door(self, fd: int) -> None:
        """Take the box's sockets through a new door; what came through an old one is dropped with the next."""
        if self._door is not None:
            self._door.close()
        self._door = Door(self.poller, fd, self._sealed, self._door_lost)

    def publish(self, listeners: Sequence[socket.socket], ports: Sequence[int]) -> None:
        """Serve listeners of the host for ports of the box, in place of those before."""
        self._drop(self._published)
        for listener, port in zip(listeners, ports, strict=True):
            self._published.append(listener)
            self._listen(listener, functools.partial(self._serve_published, port))

    def _serve_published(self, port: int, caller: Caller) -> Coroutine[None, None, None]:
        return intake.published(self, caller, port)

    def _sealed(self, sockets: Sockets) -> None:
        old = [sock for sock in (self._tcp, self._udp) if sock is not None]
        self._drop(old)
        for listeners in self._local.values():
            self._drop(listeners)
        self._local.clear()
        self._tcp, self._udp = sockets.tcp, sockets.udp
        self._listen(sockets.tcp, lambda caller: intake.serve(self, caller))
        self.poller.watch(sockets.udp.fileno(), READ, self._asked_for_names)
        for listener in sockets.listeners:
            self._add_local(listener)
        self._reconcile()

    def _door_lost(self, why: str) -> None:
        if not self._closed:
            log.info("box %s: the door is lost: %s", self.net.id, why)

    def _add_local(self, listener: socket.socket) -> None:
        port = listener.getsockname()[1]
        self._local.setdefault(port, []).append(listener)
        self._listen(listener, lambda caller: intake.local(self, caller, port))

    def _listen(self, listener: socket.socket, serve: Callable[[Caller], Coroutine[None, None, None]]) -> None:
        listener.setblocking(False)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # whoever is accepted inherits it
        self._accepting[listener] = serve
        self.poller.watch(listener.fileno(), READ, functools.partial(self._accept, listener))

    def _drop(self, sockets: list[socket.socket]) -> None:
        for sock in sockets:
            self.poller.forget(sock.fileno())
            self._accepting.pop(sock, None)
            self._held.discard(sock)
            sock.close()
        sockets.clear()

    def _reconcile(self) -> None:
        """The box listens on exactly those ports of localhost that policy opens."""
        wanted = set(self.judge.evaluator.localhost_ports())
        have = set(self._local)
        if self._door is None or self._tcp is None or wanted == have:
            return
        for port in have - wanted:
            self._drop(self._local.pop(port))
            self.spawn(self._door_asked(self._unlisten(self._door, port)))
        for port in wanted - have:
            self.spawn(self._door_asked(self._listen_locally(self._door, port)))

    async def _door_asked(self, asking: Coroutine[None, None, None]) -> None:
        try:
            await asking
        except Unavailable as error:
            log.info("box %s: %s", self.net.id, error.message)

    async def _unlisten(self, door: Door, port: int) -> None:
        await door.unlisten(port)

    async def _listen_locally(self, door: Door, port: int) -> None:
        listeners = await door.listen(port)
        current = door is self._door and not self._closed
        for listener in listeners:
            if current and port in self.judge.evaluator.localhost_ports():
                self._add_local(listener)
            else:
                listener.close()

    # -- accepting -----------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, _events: int = 0) -> None:
        serve = self._accepting.get(listener)
        for _ in range(_ACCEPTS):
            if serve is None or not self._has_room():
                self._hold(listener)
                return
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _SCARCE:
                    self._hold(listener)
                    self.poller.loop.call_later(0.2, self._resume)
                return
            sock.setblocking(False)
            self._connections += 1
            self.spawn(serve(Caller(self.poller, sock, self._context)), sock)

    def _has_room(self) -> bool:
        return (
            len(self._intakes) < INTAKES_PER_BOX
            and len(self._intakes) + len(self._passages) < self.world.flows_per_box()
        )

    def _hold(self, listener: socket.socket) -> None:
        if listener in self._accepting and listener not in self._held:
            self._held.add(listener)
            self.poller.forget(listener.fileno())

    def _resume(self) -> None:
        if not self._held or self._closed or not self._has_room():
            return
        for listener in self._held:
            self.poller.watch(listener.fileno(), READ, functools.partial(self._accept, listener))
        self._held.clear()

    def spawn(self, work: Coroutine[None, None, None], sock: socket.socket | None = None) -> None:
        """Work for one connection: whatever becomes of it, `sock` is not left behind unless a flow has taken it."""
        if self._closed:
            work.close()
            if sock is not None:
                sock.close()
            return
        if not self._intakes and not self._passages:
            self.world.busy += 1
        task = self.poller.loop.create_task(self._bounded(work, sock), name=f"intake {self.net.id}")
        self._intakes[task] = sock
        task.add_done_callback(self._intake_done)

    async def _bounded(self, work: Coroutine[None, None, None], sock: socket.socket | None) -> None:
        try:
            async with asyncio.timeout(INTAKE_TOTAL_S):
                await work
        except (OSError, TimeoutError, PaddockError):
            if sock is not None and not self._is_relayed(sock):
                reset(sock)
        except BaseException as error:
            if sock is not None and not self._is_relayed(sock):
                reset(sock)
            if not isinstance(error, asyncio.CancelledError):
                log.exception("box %s: a connection failed", self.net.id)

    def _is_relayed(self, sock: socket.socket) -> bool:
        return any(passage.flow.client is sock and not passage.flow.closed for passage in self._passages)

    def _intake_done(self, task: asyncio.Task[None]) -> None:
        self._intakes.pop(task, None)
        self._one_less()

    def _one_less(self) -> None:
        if not self._intakes and not self._passages:
            self.world.busy -= 1
        if self._held:
            self._resume()

    # -- names ---------------------------------------------------------------------------------------------------------

    def _asked_for_names(self, _events: int) -> None:
        udp = self._udp
        for _ in range(_QUERIES):
            if udp is None or udp.fileno() < 0:
                return
            try:
                data, sender = udp.recvfrom(_QUERY_BYTES, socket.MSG_DONTWAIT)
                if answer := self.answer(data):
                    udp.sendto(answer, socket.MSG_DONTWAIT, sender)
            except BlockingIOError:
                return
            except OSError:
                continue  # whoever asked is gone

    def answer(self, data: bytes, *, tcp: bool = False) -> bytes | None:
        """The answer to a question for a name; None when this box has asked too often."""
        if not self._queries.take(self.poller.now):
            return None
        self._asked += 1
        return self.lookup.answer(data, tcp=tcp)

    def name_denied_last(self) -> str:
        """The name that was denied last, if that was just now: a guess at who connects without saying a name."""
        if self._last_denied is None or self.poller.now - self._last_denied[1] > _RECENT_S:
            return ""
        return self._last_denied[0]

    def _name_denied(self, host: Host) -> None:
        now = self.poller.now
        self._last_denied = host.text, now
        known = self._denied_names.get(host.text)
        if known is not None and now - known < _DENIED_NAME_S:
            return
        self._denied_names[host.text] = now
        self._denied_names.move_to_end(host.text)
        if len(self._denied_names) > _DENIED_NAMES_KEPT:
            self._denied_names.popitem(last=False)
        self._audit.decision(
            Decided(
                protocol="dns",
                host=host.text,
                port=0,
                decision=Decision.DENY,
                reason="no rule allows this name at any port",
            )
        )

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def refuse(self, caller: Caller, target: tuple[str, int], protocol: str, verdict: Verdict) -> None:
        """Record a refusal and deliver it."""
        host, port = target
        self.denied(host, port, protocol, verdict)
        await caller.refuse(port, explain.refusal(verdict, host, port, self.net.name))

    def denied(self, host: str, port: int, protocol: str, verdict: Verdict) -> None:
        self._refused += 1
        decided = Decided(
            protocol=protocol,
            host=host,
            port=port,
            decision=Decision.DENY,
            rule=str(verdict.rule) if verdict.rule else "",
            reason=verdict.reason,
        )
        self._audit.decision(decided)
        self._denials.add(decided, allow=explain.allow_command(host, port, self.net.name, verdict))

    async def reach(self, caller: Caller, grant: Grant, protocol: str) -> tuple[Reached, Decided] | None:
        """Connect to where leave was given; None when that failed and the caller has been told."""
        verdict = grant.verdict
        decided = Decided(
            protocol=protocol,
            host=grant.host.text,
            port=grant.port,
            decision=Decision.OBSERVE if verdict.observed else Decision.ALLOW,
            rule=str(verdict.rule) if verdict.rule else "",
            reason=verdict.reason,
        )
        try:
            reached = await self.world.reach(grant.evaluator, grant.host, grant.port)
        except Unavailable as error:
            self._audit.decision(decided)
            self._audit.end(decided, sent_bytes=0, received_bytes=0, duration_ms=0, reason=error.message)
            await caller.fail(grant.port, error)
            return None
        refusal = self._changed(grant) if isinstance(reached, Reached) else reached
        if isinstance(reached, Reached) and refusal is None:
            self._audit.decision(decided)
            return reached, decided
        if isinstance(reached, Reached):
            reached.sock.close()
        assert refusal is not None
        await self.refuse(caller, (grant.host.text, grant.port), protocol, refusal)
        return None

    def _changed(self, grant: Grant) -> Verdict | None:
        """Why leave that was given a moment ago is no longer: the policy may have changed while we connected."""
        if grant.generation == self.judge.generation:
            return None
        verdict = self.judge.evaluator.decide(grant.host, grant.port)
        return None if verdict.allowed or (grant.once and verdict.rule is None) else verdict

    def relay(self, caller: Caller, grant: Grant, reached: Reached, decided: Decided) -> Passage:
        """A passage that has not started: whoever asked for it does that, with what was read already.

        It has ended already when the policy changed since leave was given, and its client was waited for meanwhile.
        """
        passage = Passage(
            self.poller,
            self.world.pipes,
            (caller.sock, reached.sock),
            grant,
            decided,
            self._passage_ended,
            direct=reached.direct,
            address=caller.address,
        )
        if passage.address is not None:
            self.names.hold(passage.address)
        self._passages.add(passage)
        if grant.generation != self.judge.generation and not passage.still_allowed(self.judge.evaluator):
            passage.end("the policy changed")
        return passage

    def relay_inside(self, caller: Caller, inside: socket.socket, port: int) -> None:
        """From the host to a published port of the box: nothing to decide, but to be counted and to be ended."""
        grant = self.judge.published(port)
        decided = Decided(protocol="published", host="localhost", port=port, decision=Decision.ALLOW)
        self._audit.decision(decided)
        self.relay(caller, grant, Reached(inside, True), decided).flow.start()

    def _passage_ended(self, passage: Passage) -> None:
        if passage not in self._passages:
            return
        self._passages.discard(passage)
        if passage.address is not None:
            self.names.release(passage.address)
        flow = passage.flow
        self._sent += flow.outward.count
        self._received += flow.inward.count
        self._audit.end(
            passage.decided,
            sent_bytes=flow.outward.count,
            received_bytes=flow.inward.count,
            duration_ms=int((self.poller.loop.time() - passage.started) * 1000),
            reason=passage.reason,
        )
        self._one_less()

    def _context(self, host: Host) -> ssl.SSLContext:
        if self._leaves is None or not self._refusals.take(self.poller.now):
            raise Unavailable("no certificate", code="certificate")
        return self._leaves.context(host)

    # -- changes -------------------------------------------------------------------------------------------------------

    def set_rules(self, rules: Rules, reason: str = "another policy") -> int:
        """How many connections it ended."""
        self.judge.change(rules)
        evaluator = self.judge.evaluator
        self.lookup.evaluator = evaluator
        self.lookup.asks = self.judge.rules.may_ask
        self._denied_names.clear()
        stale = [passage for passage in self._passages if not passage.still_allowed(evaluator)]
        for passage in stale:
            passage.end("the policy changed")
        self._audit.policy(reason, len(stale))
        self._reconcile()
        return len(stale)

    def sweep(self) -> None:
        """End what has been idle for too long."""
        now = self.poller.loop.time()
        for passage in list(self._passages):
            flow = passage.flow
            half = flow.outward.finished or flow.inward.finished
            if now - flow.active > (FLOW_HALF_CLOSED_S if half else FLOW_IDLE_S):
                passage.end("idle")

    def stats(self) -> BoxStats:
        flows = [passage.flow for passage in self._passages]
        return BoxStats(
            id=self.net.id,
            sealed=self._tcp is not None,
            flows=len(flows),
            connections=self._connections,
            denied=self._refused,
            queries=self._asked,
            bytes_out=self._sent + sum(flow.outward.count for flow in flows),
            bytes_in=self._received + sum(flow.inward.count for flow in flows),
        )

    async def dial_inside(self, port: int) -> socket.socket:
        if self._door is None:
            raise Unavailable("the box has no door", code="door")
        return await self._door.dial(port)

    def close(self) -> None:
        """End everything of this box."""
        if self._closed:
            return
        self._closed = True
        if self._door is not None:
            self._door.close()
        self._drop(self._published)
        self._drop([sock for sock in (self._tcp, self._udp) if sock is not None])
        for listeners in self._local.values():
            self._drop(listeners)
        self.judge.asks.close()
        for task in list(self._intakes):
            task.cancel()
        for passage in list(self._passages):
            passage.end("the box ended")
        self._audit.close()
        self._denials.close()
        self.world.boxes -= 1

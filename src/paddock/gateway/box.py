"""One box's network: its policy, its open connections and its records.

Everything here is bounded per box, so that whatever one box does, another has its share: a box with as many connections
as it may have is not accepted from until some have ended, and the kernel refuses what no longer fits into its queue.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError, Unavailable
from paddock.gateway.caller import Caller
from paddock.gateway.control import BoxStats
from paddock.gateway.denied_names import DeniedNames
from paddock.gateway.desk import HTTPS, Desk
from paddock.gateway.entrances import Entrances
from paddock.gateway.flow import Flow, reset
from paddock.gateway.inspected import Inspected
from paddock.gateway.lookup import Lookup
from paddock.gateway.names import Names
from paddock.gateway.passage import Passage
from paddock.gateway.rate import Rate
from paddock.gateway.records import Decided, Decision
from paddock.gateway.world import Reached
from paddock.limits import (
    FLOW_HALF_CLOSED_S,
    FLOW_IDLE_S,
    INSPECTED_PER_BOX,
    INTAKE_TOTAL_S,
    INTAKES_PER_BOX,
    QUERIES_PER_SECOND_MAX,
    QUERY_BURST_MAX,
    TLS_REFUSALS_PER_SECOND_MAX,
)
from paddock.policy import explain

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from paddock.gateway.audit import Audit, Denials
    from paddock.gateway.certificates import Leaves
    from paddock.gateway.control import BoxNet
    from paddock.gateway.inspection import Inspection
    from paddock.gateway.judging import Grant, Judge, Rules
    from paddock.gateway.listeners import Serve
    from paddock.gateway.world import World
    from paddock.policy import Host, RequestRules, Verdict

log = logging.getLogger(__name__)
_QUERIES: Final = 64
_QUERY_BYTES: Final = 4096
_UNSEEN: Final = "its requests have to be inspected now"


class Box:
    """Audit, denials and leaves are its own, and are closed with it."""

    def __init__(
        self,
        world: World,
        net: BoxNet,
        judge: Judge,
        audit: Audit,
        denials: Denials,
        leaves: Leaves | None,
        inspection: Inspection,
    ) -> None:
        self.world = world
        self.poller = world.poller.share()
        self.net = net
        self.judge = judge
        self._audit = audit
        self._denials = denials
        self._leaves = leaves
        self.desk = Desk(net.name, audit, denials, inspection)
        self.desk.rules = judge.evaluator.requests
        self.names = Names()
        self._denied_names = DeniedNames(audit)
        self.lookup = Lookup(self.names, judge.evaluator, self._name_denied)
        self.entrances = Entrances(self, self._has_room, self._accepted)
        self.lookup.asks = judge.rules.may_ask
        self._queries = Rate(QUERIES_PER_SECOND_MAX, QUERY_BURST_MAX)
        self._refusals = Rate(TLS_REFUSALS_PER_SECOND_MAX, TLS_REFUSALS_PER_SECOND_MAX)
        self._intakes: dict[asyncio.Task[None], socket.socket | None] = {}
        self._passages: set[Passage[Flow] | Passage[Inspected]] = set()
        self._inspected = 0
        self._connections = self._refused = self._asked = self._sent = self._received = 0
        self._closed = False
        world.boxes += 1

    def __repr__(self) -> str:
        state = "sealed" if self.entrances.is_sealed else "waiting"
        return f"<Box {self.net.id} {state}, {len(self._passages)} passages, {len(self._intakes)} intakes>"

    # -- connections that come in --------------------------------------------------------------------------------------

    def _accepted(self, sock: socket.socket, serve: Serve) -> None:
        self._connections += 1
        self.spawn(serve(Caller(self.poller, sock, self._context)), sock)

    def _has_room(self) -> bool:
        return (
            not self._closed
            and len(self._intakes) < INTAKES_PER_BOX
            and len(self._intakes) + len(self._passages) < self.world.flows_per_box()
        )

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
        self.entrances.resume()

    # -- names ---------------------------------------------------------------------------------------------------------

    def asked_for_names(self, _events: int) -> None:
        """Something lies at the socket for names."""
        udp = self.entrances.udp
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
        return self._denied_names.last(self.poller.now)

    def _name_denied(self, host: Host) -> None:
        self._denied_names.add(host.text, self.poller.now)

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
        decided = _decided(grant, protocol)
        try:
            reached = await self.connect(grant)
        except Unavailable as error:
            self._audit.decision(decided)
            self._audit.end(decided, sent_bytes=0, received_bytes=0, duration_ms=0, reason=error.message)
            await caller.fail(grant.port, error)
            return None
        if isinstance(reached, Reached):
            self._audit.decision(decided)
            return reached, decided
        await self.refuse(caller, (grant.host.text, grant.port), protocol, reached)
        return None

    async def connect(self, grant: Grant) -> Reached | Verdict:
        """Where leave was given, or why not any more. Raises Unavailable."""
        reached = await self.world.reach(grant.evaluator, grant.host, grant.port)
        refusal = self._changed(grant) if isinstance(reached, Reached) else None
        if refusal is not None and isinstance(reached, Reached):
            reached.sock.close()
            return refusal
        return reached

    def _changed(self, grant: Grant) -> Verdict | None:
        """Why leave that was given a moment ago is no longer: the policy may have changed while we connected."""
        if grant.generation == self.judge.generation:
            return None
        verdict = self.judge.evaluator.decide(grant.host, grant.port)
        return None if verdict.allowed or (grant.once and verdict.rule is None) else verdict

    def inspect(self, caller: Caller, grant: Grant) -> None:
        """Answer for the server from now on: the caller has said hello to it. Unavailable without an authority."""
        if self._leaves is None:
            raise Unavailable("no certificate", code="certificate")
        context = self._leaves.context(grant.host)
        decided = _decided(grant, HTTPS)
        self._audit.decision(decided)
        passage = Passage(
            self.poller,
            lambda on_end: Inspected(self, caller, grant, context, on_end),
            grant,
            decided,
            self._passage_ended,
            address=caller.address,
        )
        self._inspected += 1
        self._add(passage)
        passage.flow.start(caller.first)

    @property
    def inspects_more(self) -> bool:
        """Whether one more connection may be inspected."""
        return self._inspected < INSPECTED_PER_BOX

    def _add(self, passage: Passage[Flow] | Passage[Inspected]) -> None:
        if passage.address is not None:
            self.names.hold(passage.address)
        self._passages.add(passage)
        if passage.grant.generation != self.judge.generation and not passage.still_allowed(self.judge.evaluator):
            passage.end("the policy changed")

    def relay(
        self, caller: Caller, grant: Grant, reached: Reached, decided: Decided, *, seen: bool = False
    ) -> Passage[Flow]:
        """A passage that has not started: whoever asked for it does that, with what was read already.

        It has ended already when the policy changed since leave was given, and its client was waited for meanwhile; or
        when its requests have to be inspected by now, unless they are `seen` one by one.
        """
        passage = Passage(
            self.poller,
            lambda on_end: Flow(self.poller, self.world.pipes, caller.sock, reached.sock, on_end),
            grant,
            decided,
            self._passage_ended,
            direct=reached.direct,
            address=caller.address,
        )
        self._add(passage)
        if not seen and self.desk.must_see(grant):
            passage.end(_UNSEEN)
        return passage

    def relay_inside(self, caller: Caller, inside: socket.socket, port: int) -> None:
        """From the host to a published port of the box: nothing to decide, but to be counted and to be ended."""
        grant = self.judge.published(port)
        decided = Decided(protocol="published", host="localhost", port=port, decision=Decision.ALLOW)
        self._audit.decision(decided)
        self.relay(caller, grant, Reached(inside, True), decided).flow.start()

    def _passage_ended(self, passage: Passage[Flow] | Passage[Inspected]) -> None:
        if passage not in self._passages:
            return
        self._passages.discard(passage)
        if passage.address is not None:
            self.names.release(passage.address)
        flow = passage.flow
        self._sent += flow.sent
        self._received += flow.received
        reason = passage.reason
        if isinstance(flow, Inspected):
            self._inspected -= 1
            reason = reason or flow.reason
        self._audit.end(
            passage.decided,
            sent_bytes=flow.sent,
            received_bytes=flow.received,
            duration_ms=int((self.poller.loop.time() - passage.started) * 1000),
            reason=reason,
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
        self._denied_names.forget()
        before, self.desk.rules = self.desk.rules, evaluator.requests
        stale = [
            passage
            for passage in self._passages
            if not passage.still_allowed(evaluator) or self._is_unjudged(passage, before)
        ]
        for passage in stale:
            passage.end("the policy changed")
        self._audit.policy(reason, len(stale))
        self.entrances.reconcile()
        return len(stale)

    def _is_unjudged(self, passage: Passage[Flow] | Passage[Inspected], before: RequestRules) -> bool:
        """Whether what passes was begun under other rules about requests, and is not looked at request by request."""
        flow, grant = passage.flow, passage.grant
        if (isinstance(flow, Inspected) and not flow.tunnel) or not self.desk.must_see(grant):
            return False
        rules, old = self.desk.rules.at(grant.host, grant.port), before.at(grant.host, grant.port)
        return rules is not None and (old is None or rules.rules != old.rules)

    def set_inspection(self, inspection: Inspection) -> int:
        """How many connections it ended: those that nobody looks into and that now have to be looked into."""
        self.desk.inspection = inspection.after(self.desk.inspection)
        unseen = (passage for passage in self._passages if isinstance(passage.flow, Flow))
        stale = [passage for passage in unseen if self.desk.must_see(passage.grant)]
        for passage in stale:
            passage.end(_UNSEEN)
        return len(stale)

    def sweep(self) -> None:
        """End what has been idle for too long."""
        now = self.poller.loop.time()
        for passage in list(self._passages):
            flow = passage.flow
            if now - flow.active > (FLOW_HALF_CLOSED_S if flow.half_closed else FLOW_IDLE_S):
                passage.end("idle")

    def stats(self) -> BoxStats:
        flows = [passage.flow for passage in self._passages]
        return BoxStats(
            id=self.net.id,
            sealed=self.entrances.is_sealed,
            flows=len(flows),
            connections=self._connections,
            denied=self._refused + self.desk.refused,
            queries=self._asked,
            bytes_out=self._sent + sum(flow.sent for flow in flows),
            bytes_in=self._received + sum(flow.received for flow in flows),
        )

    def close(self) -> None:
        """End everything of this box."""
        if self._closed:
            return
        self._closed = True
        self.entrances.close()
        self.judge.asks.close()
        for task in list(self._intakes):
            task.cancel()
        for passage in list(self._passages):
            passage.end("the box ended")
        self._audit.close()
        self._denials.close()
        self.world.boxes -= 1


def _decided(grant: Grant, protocol: str) -> Decided:
    verdict = grant.verdict
    return Decided(
        protocol=protocol,
        host=grant.host.text,
        port=grant.port,
        decision=Decision.OBSERVE if verdict.observed else Decision.ALLOW,
        rule=str(verdict.rule) if verdict.rule else "",
        reason=verdict.reason,
    )

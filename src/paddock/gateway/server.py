"""The gateway as a whole: the boxes it serves and the control socket the daemon speaks to it by."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paddock import codec
from paddock._version import VERSION
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.gateway import control
from paddock.gateway.asking import Answer
from paddock.gateway.audit import Audit, Denials
from paddock.gateway.box import Box
from paddock.gateway.certificates import Authority, Leaves
from paddock.gateway.control import BoxNet, BoxUsage, Hello, HostFacts, Json, Message, PendingAsk, Stats
from paddock.gateway.inspection import Inspection
from paddock.gateway.judging import Judge, Rules
from paddock.gateway.poller import READ
from paddock.gateway.purse import Purse
from paddock.limits import BOXES_MAX, FLOW_SWEEP_S, GATEWAY_ALONE_S
from paddock.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.meter import Meter
    from paddock.gateway.world import World

log = logging.getLogger(__name__)
_CONNECTIONS_MAX: Final = 8  # one daemon, and the one before it that is still ending
_MESSAGES: Final = 32


class Server:
    """Answers on every connection to `listener` until it is told to end."""

    def __init__(self, world: World, listener: socket.socket) -> None:
        self._world = world
        self._listener = listener
        self._boxes: dict[str, Box] = {}
        self._rules: dict[bytes, Rules] = {}  # by the documents they came in
        self._connections: dict[int, socket.socket] = {}
        self._ended = asyncio.Event()
        self._operations: dict[str, Callable[[Json, list[int]], Json]] = {
            "hello": self._hello,
            "host": self._host,
            "box": self._box,
            "policy": self._policy,
            "secrets": self._secrets,
            "roots": self._roots,
            "attended": self._attended,
            "drop": self._drop,
            "pending": self._pending,
            "answer": self._answer,
            "stats": self._stats,
            "usage": self._usage,
            "end": self._end,
        }

    def __repr__(self) -> str:
        return f"<Server {len(self._boxes)} boxes, {len(self._connections)} connections>"

    async def run(self) -> None:
        """Serve until `end`."""
        self._listener.setblocking(False)
        self._world.poller.watch(self._listener.fileno(), READ, self._accept)
        tasks = [asyncio.create_task(work, name="tend") for work in (self._sweep(), self._end_when_alone())]
        try:
            await self._ended.wait()
        finally:
            for task in tasks:
                task.cancel()
            self.close()
            await self._world.close()

    def close(self) -> None:
        # First of all: who hears that we ended finds nobody here.
        self._world.poller.forget(self._listener.fileno())
        self._listener.close()
        for box in self._boxes.values():
            box.close()
        self._boxes.clear()
        for sock in list(self._connections.values()):
            self._hang_up(sock)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(FLOW_SWEEP_S)
            for box in list(self._boxes.values()):
                box.sweep()

    async def _end_when_alone(self) -> None:
        """A daemon that died while it started us, or whose home was deleted, leaves us to nobody."""
        alone = 0
        while alone < 2:
            await asyncio.sleep(GATEWAY_ALONE_S / 2)
            is_alone = not self._connections and not any(box.entrances.is_alive for box in self._boxes.values())
            alone = alone + 1 if is_alone else 0
        log.info("ending: there is neither a daemon nor a box")
        self._ended.set()

    # -- control socket ------------------------------------------------------------------------------------------------

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if len(self._connections) >= _CONNECTIONS_MAX:
            sock.close()
            return
        sock.setblocking(False)
        self._connections[sock.fileno()] = sock
        self._world.poller.watch(sock.fileno(), READ, lambda _events: self._ready(sock))

    def _hang_up(self, sock: socket.socket) -> None:
        if self._connections.pop(sock.fileno(), None) is not None:
            self._world.poller.forget(sock.fileno())
            sock.close()

    def _ready(self, sock: socket.socket) -> None:
        try:
            for _ in range(_MESSAGES):
                message = control.receive(sock)
                if message is None:
                    self._hang_up(sock)
                    return
                control.send(sock, self._reply(message))
                if self._ended.is_set():
                    return
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            log.warning("a daemon was hung up on: %s", error)
            self._hang_up(sock)

    def _reply(self, message: Message) -> Json:
        """Descriptors that the operation did not take over are closed here; it takes them out of the list."""
        head: Json = {"n": message.body.get("n")}
        try:
            if message.cut:
                raise Unavailable(
                    "the gateway has too many open files: Too many open files",
                    hint="stop some boxes, or raise the limit of open files (`ulimit -Hn`)",
                    code="os",
                )
            operation = self._operations.get(str(message.body.get("op")))
            if operation is None:
                raise UserError(f"no operation {str(message.body.get('op'))[:80]!r}", code="unknown-op")
            return head | {"ok": True} | operation(message.body, message.fds)
        except PaddockError as error:
            return head | {"error": error.to_wire()}
        except Exception as error:
            log.exception("an operation failed")
            return head | {"error": Unavailable(f"the gateway failed: {type(error).__name__}", code="bug").to_wire()}
        finally:
            control.close_all(message.fds)

    # -- operations ----------------------------------------------------------------------------------------------------

    def _hello(self, _body: Json, _fds: list[int]) -> Json:
        return _object(Hello(version=VERSION, boxes=tuple(self._boxes)))

    def _host(self, _body: Json, fds: list[int]) -> Json:
        before = self._world.own_addresses
        self._world.set_host(codec.from_wire(HostFacts, _decoded(_document(fds, 0))))
        own = self._world.own_addresses
        if own != before:
            self._rules.clear()
            same: dict[Rules, Rules] = {}  # boxes that shared their rules go on sharing them
            for box in self._boxes.values():
                rules = box.judge.rules
                box.set_rules(same.setdefault(rules, rules.at(own)), "other addresses of the host")
        return {}

    def _box(self, body: Json, fds: list[int]) -> Json:
        """Serve a box, or the one that is served by a new door."""
        net = codec.from_wire(BoxNet, body.get("box"))
        if len(fds) != control.BOX_FDS + len(net.publish):
            raise UserError(f"{len(fds)} descriptors for a box", code="protocol")
        if net.id not in self._boxes and len(self._boxes) >= BOXES_MAX:
            raise Unavailable("too many boxes", code="too-many")
        judge = Judge(self._judged_by(_document(fds, 1)), attended=net.attended)
        leaves = self._leaves(control.read_document(fds[5]))
        inspection = Inspection.parse(_document(fds, 6))
        old = self._boxes.pop(net.id, None)
        if old is not None:
            old.close()
            inspection = inspection.after(old.desk.inspection)
        purse = self._purse(net, inspection, old.desk.meter if old is not None else None)
        listeners = [socket.socket(fileno=fds.pop()) for _ in net.publish][::-1]
        control.close_all([fds.pop(), fds.pop()])  # the secrets and the authority
        denials, second, first = fds.pop(), fds.pop(), fds.pop()
        box = Box(self._world, net, judge, Audit(first, second, box=net.name), Denials(denials), leaves, inspection)
        box.desk.meter = purse
        self._boxes[net.id] = box
        box.entrances.publish(listeners, net.publish)
        box.entrances.open_door(fds.pop(0))
        return {}

    def _leaves(self, pem: bytes) -> Leaves | None:
        return Leaves(Authority.from_pem(pem), self._world.directory) if pem else None

    def _policy(self, body: Json, fds: list[int]) -> Json:
        box = self._known(body)
        return {"closed": box.set_rules(self._judged_by(_document(fds, 0)))}

    def _secrets(self, body: Json, fds: list[int]) -> Json:
        box = self._known(body)
        inspection = Inspection.parse(_document(fds, 0))
        box.desk.meter = self._purse(box.net, inspection, box.desk.meter)
        return {"closed": box.set_inspection(inspection)}

    def _purse(self, net: BoxNet, inspection: Inspection, before: Meter | None) -> Purse | None:
        """What was spent while we had the box counts, not what the daemon has heard of."""
        spending = inspection.spending
        if spending is None:
            return None
        if isinstance(before, Purse):
            before.set_budget(spending.budget)
            return before
        return Purse(net.id, net.name, spending, self._tell_usage)

    def _tell_usage(self, usage: BoxUsage) -> None:
        for sock in list(self._connections.values()):
            try:
                control.send(sock, {"usage": codec.to_wire(usage)})
            except OSError:
                continue  # it does not read; the next one says all of it again

    def _usage(self, body: Json, _fds: list[int]) -> Json:
        meter = self._known(body).desk.meter
        return {"usage": codec.to_wire(meter.usage())} if isinstance(meter, Purse) else {}

    def _roots(self, _body: Json, fds: list[int]) -> Json:
        self._world.set_roots(_document(fds, 0))
        return {}

    def _judged_by(self, document: bytes) -> Rules:
        """The rules of a policy; UserError for one that cannot be."""
        known = self._rules.get(document)
        if known is None:
            known = Rules(codec.from_wire(Policy, _decoded(document)), self._world.own_addresses)
            self._rules[document] = known
            while len(self._rules) > _RULES_KEPT:
                del self._rules[next(iter(self._rules))]
        return known

    def _attended(self, body: Json, _fds: list[int]) -> Json:
        self._known(body).judge.attended = body.get("attended") is True
        return {}

    def _drop(self, body: Json, _fds: list[int]) -> Json:
        box = self._boxes.pop(str(body.get("id")), None)
        if box is not None:
            box.close()
        return {}

    def _pending(self, _body: Json, _fds: list[int]) -> Json:
        """The oldest of each box first, then the next of each: no box's questions hide those of another."""
        now = time.time()
        asked = [[(name, pending) for pending in box.judge.pending()] for name, box in self._boxes.items()]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*filter(None, asked)))
        asks = [
            codec.to_wire(
                PendingAsk(
                    ask=pending.ask,
                    box=name,
                    host=pending.host,
                    port=pending.port,
                    protocol=pending.protocol,
                    time=datetime.fromtimestamp(now - pending.age_s, UTC).isoformat(timespec="milliseconds"),
                    held=pending.waiting > 0,
                )
            )
            for name, pending in itertools.islice(filter(None, turns), _ASKS_SHOWN)
        ]
        return {"asks": asks}

    def _answer(self, body: Json, _fds: list[int]) -> Json:
        try:
            answer = Answer(body.get("decision"))
        except ValueError as error:
            raise UserError("an answer is once or no", code="bad-answer") from error
        ask = str(body.get("ask"))
        for box in self._boxes.values():
            if any(pending.ask == ask for pending in box.judge.pending()):
                box.judge.answer(ask, answer)
                return {}
        raise UserError(f"no question {ask[:80]!r} is open", hint="see `paddock policy pending`", code="no-ask")

    def _stats(self, _body: Json, _fds: list[int]) -> Json:
        busy = [box.stats() for box in self._boxes.values()]
        return _object(Stats(boxes=tuple(busy[:_STATS_SHOWN])))

    def _end(self, _body: Json, _fds: list[int]) -> Json:
        self._ended.set()
        return {}

    def _known(self, body: Json) -> Box:
        box = self._boxes.get(str(body.get("id")))
        if box is None:
            raise Unavailable(f"the gateway knows no box {str(body.get('id'))[:80]!r}", code="no-box")
        return box


_RULES_KEPT: Final = 32
_ASKS_SHOWN: Final = 128  # what fits into a message; the oldest come first
_STATS_SHOWN: Final = 300


def _document(fds: list[int], which: int) -> bytes:
    """A document among the descriptors; it stays in the list, to be closed with it."""
    if which >= len(fds):
        raise UserError("a descriptor is missing", code="protocol")
    try:
        return control.read_document(fds[which])
    except OSError as error:
        raise UserError(f"a document cannot be read: {error}", code="protocol") from error


def _decoded(document: bytes) -> object:
    try:
        return json.loads(document)
    except (ValueError, RecursionError) as error:
        raise UserError(f"a document is no JSON: {error}", code="protocol") from error


def _object(value: object) -> Json:
    wire = codec.to_wire(value)
    assert isinstance(wire, dict)
    return wire

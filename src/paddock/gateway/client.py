"""The daemon's side of the gateway: finds the one that runs or starts another, and asks it for things."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Final

from paddock import codec, fs, proc
from paddock.errors import PaddockError, Unavailable, from_wire
from paddock.gateway import control
from paddock.gateway.control import BoxNet, BoxUsage, Hello, HostFacts, Json, PendingAsk, Stats
from paddock.limits import GATEWAY_REPLY_S, GATEWAY_START_S
from paddock.readiness import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paddock.policy import Policy

log = logging.getLogger(__name__)
DIED: Final = "gateway-died"  # the code of the error when it ended before it answered: start another and add the boxes
_KIND: Final = socket.SOCK_SEQPACKET
_CREDENTIALS = struct.Struct("3i")
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from paddock.daemon.gateway_main import main; main()"


class Gateway:
    """A connection to the running gateway. Descriptors that are handed over stay the caller's to close."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._count = 0
        self._ended = asyncio.Event()
        self.pid = peer_pid(sock)
        self.on_usage: Callable[[BoxUsage], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._receive)

    def __repr__(self) -> str:
        return f"<Gateway {self.pid} {'ended' if self._ended.is_set() else 'running'}>"

    @classmethod
    async def connect(cls, directory: str, name: str) -> Gateway:
        """FileNotFoundError and ConnectionRefusedError say that none runs."""
        return cls(fs.connect_unix(directory, name, kind=_KIND))

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def wait_ended(self) -> None:
        await self._ended.wait()

    def close(self) -> None:
        """Let go of the connection; the gateway goes on."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        self._ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_died())

    async def hello(self) -> Hello:
        return codec.from_wire(Hello, await self._ask("hello"))

    async def set_host(self, facts: HostFacts) -> None:
        with _documents(host=_encode(facts)) as fds:
            await self._ask("host", fds=fds)

    async def add(
        self,
        box: BoxNet,
        *,
        door: int,
        policy: Policy,
        audit: tuple[int, int],
        denials: int,
        authority: bytes,
        secrets: bytes = b"",
        listeners: Sequence[int] = (),
    ) -> None:
        """Serve a box, or serve it anew by another door. `authority` is PEM: key, then certificate; may be empty.

        `secrets` is the box's document for inspection (docs/gateway.md), with values in it; empty for a box without.

        `listeners` are the published ones, in the order of box.publish. The audit and denials descriptors are open for
        appending. Returns when the gateway has taken the door; the box's sockets may come through it later.
        """
        with _documents(policy=_encode(policy), authority=authority, secrets=secrets) as (rules, pem, hidden):
            fds = [door, rules, *audit, denials, pem, hidden, *listeners]
            await self._ask("box", {"box": codec.to_wire(box)}, fds=fds)

    async def set_policy(self, box: str, policy: Policy) -> int:
        """Returns how many open connections the new policy ended."""
        with _documents(policy=_encode(policy)) as fds:
            reply = await self._ask("policy", {"id": box}, fds=fds)
        closed = reply.get("closed")
        return closed if isinstance(closed, int) else 0

    async def set_secrets(self, box: str, document: bytes) -> int:
        """Another document for inspection, from the next request on. Returns how many connections it ended: those that
        passed unseen and now have to be inspected."""
        with _documents(secrets=document) as fds:
            reply = await self._ask("secrets", {"id": box}, fds=fds)
        closed = reply.get("closed")
        return closed if isinstance(closed, int) else 0

    async def set_roots(self, pem: bytes) -> None:
        """Whom the servers of inspected connections are verified by, for all boxes; without it none is reached."""
        with _documents(roots=pem) as fds:
            await self._ask("roots", fds=fds)

    async def set_attended(self, box: str, *, attended: bool) -> None:
        await self._ask("attended", {"id": box, "attended": attended})

    async def drop(self, box: str) -> None:
        """End a box's network; one the gateway does not know is no error."""
        await self._ask("drop", {"id": box})

    async def pending(self) -> tuple[PendingAsk, ...]:
        asks = (await self._ask("pending")).get("asks")
        return tuple(codec.from_wire(PendingAsk, ask) for ask in asks) if isinstance(asks, list) else ()

    async def answer(self, ask: str, decision: control.Decision) -> None:
        """UserError code="no-ask" when it is no longer waiting."""
        await self._ask("answer", {"ask": ask, "decision": decision})

    async def stats(self) -> Stats:
        return codec.from_wire(Stats, await self._ask("stats"))

    async def usage(self, box: str) -> BoxUsage | None:
        """What a box spent; None for one that is not metered."""
        reply = await self._ask("usage", {"id": box})
        return codec.from_wire(BoxUsage, reply["usage"]) if "usage" in reply else None

    async def end(self) -> None:
        """The gateway ends, and with it every connection of every box."""
        with contextlib.suppress(Unavailable):
            await self._ask("end")
        with contextlib.suppress(TimeoutError):
            await within(self.wait_ended(), GATEWAY_REPLY_S)

    async def _ask(self, op: str, values: Json | None = None, *, fds: Sequence[int] = ()) -> Json:
        if self.ended:
            raise _died()
        self._count = number = self._count + 1
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            await self._send({"n": number, "op": op, **(values or {})}, fds)
            reply = await within(waiting, GATEWAY_REPLY_S)
        except TimeoutError as error:
            raise Unavailable(f"the gateway does not answer ({op})", code="gateway") from error
        except OSError as error:
            raise _died() from error
        finally:
            del self._waiting[number]
        if "error" in reply:
            raise from_wire(reply["error"])
        return {key: value for key, value in reply.items() if key not in {"n", "ok"}}

    async def _send(self, body: Json, fds: Sequence[int]) -> None:
        deadline = asyncio.get_running_loop().time() + GATEWAY_REPLY_S
        while True:
            try:
                control.send(self._sock, body, fds)
                return
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    raise TimeoutError from None
                await asyncio.sleep(0.001)  # its queue is full: hundreds of boxes are being added

    def _receive(self) -> None:
        while True:
            try:
                message = control.receive(self._sock)
            except BlockingIOError:
                return
            except (OSError, ValueError):
                message = None
            if message is None:
                self.close()
                return
            control.close_all(message.fds)
            if "n" not in message.body:
                self._hear(message.body)
                continue
            number = message.body.get("n")
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message.body)

    def _hear(self, body: Json) -> None:
        try:
            usage = codec.from_wire(BoxUsage, body.get("usage"))
        except PaddockError as error:
            log.warning("the gateway says what nobody understands: %s", error)
            return
        if self.on_usage is not None:
            self.on_usage(usage)


async def start(directory: str, name: str, log_path: str) -> Gateway:
    """A new gateway that serves at `name` in the directory; a live one there is Unavailable code="in-use"."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, _KIND)
    try:
        with theirs, fs.bind_unix(directory, name, kind=_KIND) as listener:
            control.send(ours, {"serve": True}, [listener.fileno()])
            await asyncio.to_thread(  # starting two interpreters takes a while, and boxes may be served meanwhile
                proc.spawn_daemon,
                [sys.executable, "-I", "-S", "-c", _BOOT, package_root(), str(theirs.fileno())],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                log_path=log_path,
                ready_fd=theirs.fileno(),
            )
        ours.setblocking(False)
        data = await within(asyncio.get_running_loop().sock_recv(ours, control.MESSAGE_BYTES), GATEWAY_START_S)
    except TimeoutError as error:
        raise Unavailable(f"the gateway did not start in time; {log_path} has more", code="gateway") from error
    finally:
        ours.close()
    _raise_unless_ready(data, log_path)
    return await Gateway.connect(directory, name)


def peer_pid(sock: socket.socket) -> int:
    """The process that serves the other end, as this process would name it."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(raw)[0]
    return pid


def package_root() -> str:
    """The directory that holds the `paddock` package, for interpreters we start with -I."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _raise_unless_ready(data: bytes, log_path: str) -> None:
    if not data:
        raise Unavailable(f"the gateway ended at its start; {log_path} has more", code="gateway")
    reply = json.loads(data)
    if "error" in reply:
        raise from_wire(reply["error"])


def _encode(value: object) -> bytes:
    return json.dumps(codec.to_wire(value), separators=(",", ":")).encode("ascii")


@contextlib.contextmanager
def _documents(**contents: bytes) -> Iterator[list[int]]:
    fds: list[int] = []
    try:
        for name, data in contents.items():
            fds.append(control.document(name, data))
        yield fds
    finally:
        control.close_all(fds)


def _died() -> PaddockError:
    return Unavailable("the gateway ended", code=DIED)

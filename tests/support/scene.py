"""A small world for tests of the gateway: a host with origins on its loopback, a gateway in its jail, sealed boxes.

Everything is inside network namespaces of the test's own, so an ordinary user may have port 80 and nothing reaches the
machine. `play(act)` runs `act(scene)` in that world, as a child whose failure is the test's.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import resource
import socket
import ssl
import struct
import tempfile
import threading
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock import limits
from paddock.engines.guest.door import Door
from paddock.engines.guest.wire import Loop
from paddock.engines.process import kernel, seal
from paddock.gateway import client
from paddock.gateway.audit import open_log
from paddock.gateway.certificates import make_authority
from paddock.gateway.control import BoxNet, HostFacts
from paddock.policy import (
    Action,
    Default,
    Layer,
    OnDeny,
    Pattern,
    Policy,
    Request,
    RequestRule,
    Rule,
    Source,
    SourceKind,
)
from tests.support.forks import forked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET
_libc = ctypes.CDLL(None, use_errno=True)
_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x41
LOOPBACK = "127.0.0.0/8"
_ORDINARY_ID = 1000  # whoever plays is nobody special, as most users


def policy(
    *allowed: str,
    deny: Sequence[str] = (),
    bypass: Sequence[str] = (),
    requests: Sequence[str] = (),
    default: Default = Default.DENY,
    on_deny: OnDeny = OnDeny.DENY,
    ceiling: Layer | None = None,
) -> Policy:
    """A user's policy. The test's origins are on loopback, which a rule has to open.

    `requests` are rules about requests: `allow GET api.test/path/**`.
    """
    source = Source(SourceKind.FLAG, "test")
    rules = [Rule(Action.ALLOW, Pattern(text).text, source) for text in (*allowed, LOOPBACK)]
    rules += [Rule(Action.ALLOW, Pattern(text).text, source, bypass=True) for text in bypass]
    rules += [Rule(Action.DENY, Pattern(text).text, source) for text in deny]
    layers = (Layer("box", default, tuple(rules), request_rules(requests)),)
    return Policy(layers=(ceiling, *layers) if ceiling else layers, on_deny=on_deny)


def request_rules(texts: Sequence[str]) -> tuple[RequestRule, ...]:
    said = (text.partition(" ") for text in texts)
    return tuple(
        RequestRule(Action(word), Request(text).text, Source(SourceKind.FLAG, "test")) for word, _, text in said
    )


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))


def play(act: Callable[[Scene], None]) -> None:
    from tests.support import namespaces  # here, for the benchmark has no pytest

    def inside() -> None:
        with Scene() as scene:
            act(scene)

    namespaces.inside(inside, NET, as_id=_ORDINARY_ID)


class Scene:
    """The host's side."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.runner = asyncio.Runner()
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="scene-")))
        self.hosts: dict[str, tuple[str, ...]] = {}
        self.gateway: client.Gateway
        self.boxes: list[BoxScene] = []
        self._count = 0

    def __enter__(self) -> Self:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a login has 1,024, and origins are in this process
        loopback_up()
        self.start_gateway()
        return self

    def __exit__(self, *_: object) -> None:
        for box in self.boxes:
            box.close()
        self.run(self.gateway.end())
        self.runner.close()
        self._stack.close()

    def start_gateway(self) -> None:
        self.gateway = self.run(client.start(f"{self.directory}", "gateway", f"{self.directory}/log"))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def know(self, **facts: Any) -> None:
        """Names of the host, and whatever else it knows."""
        self.run(self.gateway.set_host(HostFacts(hosts=self.hosts, **facts)))

    def names(self, *names: str, address: str = "127.0.0.1") -> None:
        self.hosts |= dict.fromkeys(names, (address,))
        self.know()

    def origin(self, port: int, serve: Callable[[socket.socket], None], address: str = "127.0.0.1") -> int:
        """A server of threads that end with the test."""
        listener = socket.create_server((address, port), backlog=512)
        self._stack.callback(listener.close)

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_served, args=(serve, sock), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    def box(self, rules: Policy, **options: Any) -> BoxScene:
        self._count += 1
        box = BoxScene(self, f"box{self._count}", rules, **options)
        self.boxes.append(box)
        return box


def _die_with_parent() -> None:
    _libc.prctl(1, 9, 0, 0, 0)


def _served(serve: Callable[[socket.socket], None], sock: socket.socket) -> None:
    with sock:
        sock.settimeout(20)
        try:
            serve(sock)
        except OSError:
            pass


class BoxScene:
    """A sealed network with init's side of the door, and acts that run in it."""

    def __init__(
        self,
        scene: Scene,
        name: str,
        rules: Policy,
        *,
        attended: bool = False,
        ports: Sequence[int] = (),
        publish: Sequence[tuple[socket.socket, int]] = (),
        secrets: bytes = b"",
        add: bool = True,
    ) -> None:
        self._secrets = secrets
        self.scene, self.name, self.attended, self._ports = scene, name, attended, list(ports)
        self._publish = list(publish)
        self._pid = 0
        self.authority = make_authority(name)
        place = scene.directory / name
        place.mkdir()
        self.audit = (place / "0.jsonl", place / "1.jsonl")
        self.denials = place / "denials.jsonl"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            self._start(theirs)
            if add:
                self.add(ours.fileno(), rules)

    def _start(self, door: socket.socket) -> None:
        ready, told = os.pipe()
        pid = forked()
        if not pid:
            try:
                _die_with_parent()
                kernel.unshare(kernel.CLONE_NEWNET)
                kernel.close_all_but({0, 1, 2, told, door.fileno()})
                seal.close_off()
                made = seal.make(os.dup(door.fileno()), self._ports)
                loop = Loop()
                Door(loop, made, made.door)
                os.write(told, b"x")
                while True:
                    loop.run_once()
            except BaseException:  # noqa: BLE001  a child of the test's: nothing of pytest may go on here
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(1)
        self._pid = pid
        door.close()
        os.close(told)
        assert os.read(ready, 1), "the box was not sealed"
        os.close(ready)

    def add(self, door: int, rules: Policy) -> None:
        fds = [open_log(os.fspath(path)) for path in (*self.audit, self.denials)]
        try:
            self.scene.run(
                self.scene.gateway.add(
                    BoxNet(
                        id=self.name,
                        name=self.name,
                        attended=self.attended,
                        publish=tuple(port for _, port in self._publish),
                    ),
                    door=door,
                    policy=rules,
                    audit=(fds[0], fds[1]),
                    denials=fds[2],
                    authority=self.authority.to_pem(),
                    secrets=self._secrets,
                    listeners=[sock.fileno() for sock, _ in self._publish],
                )
            )
        finally:
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def inside(self, act: Callable[[], Any]) -> Any:
        """What `act` returns when it runs in the box, as JSON carries it."""
        return self.begin(act)()

    def begin(self, act: Callable[[], Any]) -> Callable[[], Any]:
        """Start `act` in the box; calling the result waits for what it returns."""
        reader, writer = os.pipe()
        net = os.open(f"/proc/{self._pid}/ns/net", os.O_RDONLY)
        pid = forked()
        if not pid:
            try:
                _die_with_parent()
                if _libc.setns(net, kernel.CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
                said = json.dumps({"value": act()})
            except BaseException:  # noqa: BLE001
                said = json.dumps({"error": traceback.format_exc()})
            with open(writer, "w") as pipe:
                pipe.write(said)
            os._exit(0)
        os.close(net)
        os.close(writer)

        def wait() -> Any:
            with open(reader) as pipe:
                said = json.loads(pipe.read() or '{"error": "it said nothing"}')
            os.waitpid(pid, 0)
            assert "error" not in said, said["error"]
            return said["value"]

        return wait

    def records(self) -> list[dict[str, Any]]:
        lines = [line for path in self.audit for line in path.read_text().splitlines()]
        return [record for line in lines if "event" in (record := json.loads(line))]

    def refusals(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.denials.read_text().splitlines()]


def client_hello(name: str | None) -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


# -- acts inside -------------------------------------------------------------------------------------------------------


def lookup(name: str, qtype: int = 1, server: str = limits.GATEWAY_ADDRESS) -> str | int:
    """The address a name means in here, or the code of the answer without one."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\0" + struct.pack(">HH", qtype, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.sendto(query, (server, 53))
        answer = sock.recv(4096)
    return socket.inet_ntoa(answer[-4:]) if answer[6:8] == b"\0\1" else answer[3] & 15


def connect(name: str, port: int) -> socket.socket:
    """As a program does: look up, connect."""
    address = lookup(name)
    assert isinstance(address, str), address
    return socket.create_connection((address, port), 10)


def talk(sock: socket.socket, data: bytes = b"") -> str:
    """Send, then read until the end; `reset` if that is how it ended."""
    sock.settimeout(10)
    said = b""
    try:
        if data:
            sock.sendall(data)
        while piece := sock.recv(65536):
            said += piece
    except ConnectionResetError:
        return said.decode("latin-1") + "<reset>"
    finally:
        sock.close()
    return said.decode("latin-1")

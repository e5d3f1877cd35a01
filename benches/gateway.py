"""The gateway against direct loopback: a real one in its jail, a sealed network, an origin and a client in turns.

All of it lives in a network namespace of the benchmark's own. Client and origin are one Python process each, so with
the gateway three processes share what the direct way has for two.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING

from benches.figures import Figure, Samples, Target, Yardstick
from paddock.engines.process import confine, kernel
from tests.support.scene import NET, Scene, lookup, policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benches.installation import Installation

ROUNDS = 5
SECONDS = 1.0
CONNECTIONS = 16
BULK_BYTES = 512 * 1024 * 1024
HTTP_PORT, ECHO_PORT, BULK_PORT = 80, 7000, 7001
NAME = "origin.test"
DIRECT = "direct loopback"
_ORDINARY_ID = 1000
_OPAQUE = b"\x01" * 200
_REQUEST = f"GET / HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n".encode()
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"z" * 100
_CHUNK = b"x" * 262144


def measure(_installation: Installation) -> list[Figure]:
    taken = in_a_world_of_its_own(_rounds)
    bulk = [through / direct for direct, through in zip(taken["bulk_direct"], taken["bulk"], strict=True)]
    added = [through - direct for direct, through in zip(taken["connect_direct"], taken["connect"], strict=True)]

    def figure(name: str, what: str, unit: str, least: float) -> Figure:
        direct = Yardstick(name=DIRECT, samples=Samples.of(taken[f"{name}_direct"]))
        samples = Samples.of(taken[name])
        return Figure(
            name=name, what=what, unit=unit, samples=samples, target=Target(p50_least=least), yardsticks=(direct,)
        )

    return [
        Figure(
            name="bulk",
            what="bulk through the gateway, as a part of direct",
            unit="x",
            samples=Samples.of(bulk),
            target=Target(p50_least=0.6),
        ),
        figure("opaque", "small opaque exchanges over 16 connections", "1/s", 10_000),
        figure("http", "requests with their Host checked over 16 connections", "1/s", 2_500),
        figure("connections", "new audited connections", "1/s", 2_500),
        Figure(
            name="added",
            what="what the gateway adds to a connection with one exchange (p50 of each round)",
            unit="ms",
            samples=Samples.of(added),
            target=Target(p50_most=1.0),
        ),
    ]


def _rounds(scene: Scene) -> dict[str, list[float]]:
    origins = [_origin(HTTP_PORT, _answer), _origin(ECHO_PORT, _echo), _origin(BULK_PORT, _pour)]
    try:
        scene.names(NAME)
        box = scene.box(policy(NAME))
        acts: dict[str, Callable[[str], float]] = {
            "bulk": lambda to: _bulk((to, BULK_PORT)),
            "opaque": lambda to: _exchanges((to, ECHO_PORT), _OPAQUE, len(_OPAQUE)),
            "http": lambda to: _exchanges((to, HTTP_PORT), _REQUEST, len(_ANSWER)),
            "connections": lambda to: _connections((to, ECHO_PORT)),
            "connect": lambda to: _connect((to, ECHO_PORT)),
        }
        taken: dict[str, list[float]] = {key: [] for name in acts for key in (name, f"{name}_direct")}
        for number in range(-1, ROUNDS):
            for name, act in acts.items():
                direct = act("127.0.0.1")
                through = float(box.inside(lambda act=act: act(str(lookup(NAME)))))  # type: ignore[misc]
                if number >= 0:
                    taken[f"{name}_direct"].append(direct)
                    taken[name].append(through)
        assert not scene.log, scene.log
        return taken
    finally:
        for pid in origins:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def in_a_world_of_its_own(act: Callable[[Scene], dict[str, list[float]]]) -> dict[str, list[float]]:
    uid, gid = os.getuid(), os.getgid()
    reader, writer = os.pipe()
    pid = kernel.clone(NET)
    if not pid:
        try:
            confine.write_file("/proc/self/setgroups", "deny")
            confine.write_file("/proc/self/uid_map", f"{_ORDINARY_ID} {uid} 1")
            confine.write_file("/proc/self/gid_map", f"{_ORDINARY_ID} {gid} 1")
            with Scene() as scene, open(writer, "w", encoding="ascii") as pipe:
                pipe.write(json.dumps(act(scene)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    taken: dict[str, list[float]] = json.loads(said)
    return taken


# -- clients -----------------------------------------------------------------------------------------------------------


def _exchanges(address: tuple[str, int], request: bytes, answer_bytes: int) -> float:
    """Whole exchanges a second, one at a time on each connection."""
    missing: dict[int, int] = {}
    socks: dict[int, socket.socket] = {}
    done = 0
    with select.epoll() as epoll:
        for sock in (_connected(address) for _ in range(CONNECTIONS)):
            socks[sock.fileno()], missing[sock.fileno()] = sock, answer_bytes
            epoll.register(sock.fileno(), select.EPOLLIN)
            sock.send(request)
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < SECONDS:
            for fd, _ in epoll.poll():
                missing[fd] -= len(socks[fd].recv(65536))
                if missing[fd] == 0:
                    done += 1
                    missing[fd] = answer_bytes
                    socks[fd].send(request)
                assert missing[fd] > 0
    for sock in socks.values():
        sock.close()
    return done / spent


def _connections(address: tuple[str, int]) -> float:
    """New connections a second, each with one exchange, 16 at a time."""
    socks: dict[int, socket.socket] = {}
    done = 0
    with select.epoll() as epoll:

        def begin() -> None:
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            socks[sock.fileno()] = sock
            epoll.register(sock.fileno(), select.EPOLLOUT)

        for _ in range(CONNECTIONS):
            begin()
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < SECONDS:
            for fd, events in epoll.poll():
                if events & select.EPOLLOUT:
                    socks[fd].send(_OPAQUE)
                    epoll.modify(fd, select.EPOLLIN)
                else:
                    assert socks[fd].recv(65536)
                    epoll.unregister(fd)
                    _reset(socks.pop(fd))
                    done += 1
                    begin()
    for sock in socks.values():
        sock.close()
    return done / spent


def _connect(address: tuple[str, int]) -> float:
    """Milliseconds of a new connection with one exchange, the middle of 300."""
    took = []
    for _ in range(300):
        begun = time.perf_counter()
        sock = _connected(address)
        sock.send(_OPAQUE)
        assert sock.recv(65536)
        took.append((time.perf_counter() - begun) * 1e3)
        _reset(sock)
    return sorted(took)[150]


def _bulk(address: tuple[str, int]) -> float:
    """Gigabytes a second."""
    room = bytearray(len(_CHUNK))
    got = 0
    with _connected(address) as sock:
        sock.send(b"\x01")
        begun = time.perf_counter()
        while count := sock.recv_into(room):
            got += count
        spent = time.perf_counter() - begun
    assert got == BULK_BYTES
    return got / spent / 1e9


def _reset(sock: socket.socket) -> None:
    """Leave nothing in TIME_WAIT: with most ports there, the kernel takes milliseconds to find one for the next."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _connected(address: tuple[str, int]) -> socket.socket:
    sock = socket.create_connection(address, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


# -- origins -----------------------------------------------------------------------------------------------------------


def _echo(data: bytes) -> Iterator[bytes]:
    yield data


def _answer(data: bytes) -> Iterator[bytes]:
    for _ in range(data.count(b"\r\n\r\n")):
        yield _ANSWER


def _pour(_data: bytes) -> Iterator[bytes]:
    for _ in range(BULK_BYTES // len(_CHUNK)):
        yield _CHUNK
    yield b""


def _origin(port: int, answers: Callable[[bytes], Iterator[bytes]]) -> int:
    """The pid of a server that answers what it hears, and closes after an empty answer."""
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    pid = kernel.clone(0)
    if not pid:
        try:
            _serve(listener, answers)
        finally:
            os._exit(1)
    listener.close()
    return pid


def _serve(listener: socket.socket, answers: Callable[[bytes], Iterator[bytes]]) -> None:
    socks: dict[int, socket.socket] = {}
    with select.epoll() as epoll:
        epoll.register(listener.fileno(), select.EPOLLIN)
        while True:
            for fd, _ in epoll.poll():
                if fd == listener.fileno():
                    sock, _ = listener.accept()
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    socks[sock.fileno()] = sock
                    epoll.register(sock.fileno(), select.EPOLLIN)
                elif not _heard(socks[fd], answers):
                    epoll.unregister(fd)
                    socks.pop(fd).close()


def _heard(sock: socket.socket, answers: Callable[[bytes], Iterator[bytes]]) -> bool:
    try:
        data = sock.recv(65536)
        if not data:
            return False
        for answer in answers(data):
            if not answer:
                return False
            sock.sendall(answer)
    except OSError:
        return False
    return True

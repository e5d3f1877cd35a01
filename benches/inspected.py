"""Inspected connections against direct TLS: a real gateway in its jail that puts a secret into every request.

Client and origin are one Python process each and do TLS themselves, so with the gateway three processes do what two do
without it, and four ends of TLS take the place of two.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import ssl
import statistics
import time
from typing import TYPE_CHECKING

from benches import gateway
from benches.figures import Figure, Samples, Target, Yardstick
from paddock.engines.process import kernel
from paddock.gateway.certificates import Leaves, make_authority
from paddock.policy import Host
from tests.support.inspecting import PLACEHOLDER, document, secret
from tests.support.scene import Scene, lookup, policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.installation import Installation

ROUNDS = 3
SECONDS = 2.0
CONNECTIONS = 16
LEAVES = 20
EVENTS = 200
BULK_BYTES = 256 * 1024 * 1024
NAME = "origin.test"
_WORDS = f"POST /v1/messages HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: bench\r\nX-Api-Key: {PLACEHOLDER}\r\n"
_REQUEST = f"{_WORDS}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{'x' * 20}".encode()
_BULK = f"GET /bulk HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n".encode()
_STREAM = _BULK.replace(b"/bulk", b"/events")
_EVENT = b"data: 1\n\n"
_EVENTS_BEGIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENTS_BEGIN += b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
_EVENTS_END = b"0\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + b"z" * 100
_CHUNK = b"x" * 262144


def measure(_installation: Installation) -> list[Figure]:
    taken = gateway.in_a_world_of_its_own(_rounds)

    def figure(name: str, what: str, unit: str, least: float) -> Figure:
        direct = Yardstick(name="direct TLS", samples=Samples.of(taken[f"{name}_direct"]))
        samples = Samples.of(taken[name])
        target = Target(p50_least=least)
        return Figure(name=name, what=what, unit=unit, samples=samples, target=target, yardsticks=(direct,))

    return [
        figure("inspected", "inspected requests over 16 connections", "1/s", 2_000),
        figure("inspected_connections", "new inspected TLS connections, 16 at a time", "1/s", 200),
        figure("inspected_bulk", "inspected bulk", "MB/s", 150),
        Figure(
            name="leaf",
            what="the first connection to a host, leaf included",
            unit="ms",
            samples=Samples.of(taken["leaf"]),
            target=Target(p50_most=20.0),
        ),
        Figure(
            name="inspected_event",
            what="what inspection adds to the first event of a stream (p50 of each round)",
            unit="ms",
            samples=Samples.of(
                [
                    through - direct
                    for direct, through in zip(taken["inspected_event_direct"], taken["inspected_event"], strict=True)
                ]
            ),
            target=Target(p50_most=3.0),
        ),
    ]


def _rounds(scene: Scene) -> dict[str, list[float]]:
    authority = make_authority("roots")
    names = [f"n{number}.{NAME}" for number in range(LEAVES)]
    pid = _origin(Leaves(authority, str(scene.directory)).context(Host(NAME)))
    try:
        scene.run(scene.gateway.set_roots(authority.certificate_pem))
        scene.names(NAME, *names)
        content = document(secret(hosts=[NAME, f"*.{NAME}"], headers=["x-api-key"]))
        box = scene.box(policy(NAME, f"*.{NAME}"), secrets=content)
        inside, outside = (
            ssl.create_default_context(cadata=each.certificate_pem.decode()) for each in (box.authority, authority)
        )
        acts: dict[str, Callable[[ssl.SSLContext, str], float]] = {
            "inspected": _exchanges,
            "inspected_connections": _connections,
            "inspected_bulk": _bulk,
            "inspected_event": _first_event,
        }
        taken: dict[str, list[float]] = {key: [] for name in acts for key in (name, f"{name}_direct")}
        taken["leaf"] = [float(box.inside(lambda name=name: _first(inside, name))) for name in names]  # type: ignore[misc]
        for _ in range(ROUNDS):
            for name, act in acts.items():
                taken[f"{name}_direct"].append(act(outside, "127.0.0.1"))
                through = box.inside(lambda act=act: act(inside, str(lookup(NAME))))  # type: ignore[misc]
                taken[name].append(float(through))
        assert not scene.log, scene.log
        return taken
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# -- clients -----------------------------------------------------------------------------------------------------------


def _connected(context: ssl.SSLContext, address: str, name: str = NAME) -> ssl.SSLSocket:
    sock = socket.create_connection((address, 443), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock, server_hostname=name)


def _exchanges(context: ssl.SSLContext, address: str) -> float:
    """Whole exchanges a second, one at a time on each connection."""
    socks = {sock.fileno(): sock for sock in (_connected(context, address) for _ in range(CONNECTIONS))}
    missing = dict.fromkeys(socks, len(_ANSWER))
    done = 0
    with select.epoll() as epoll:
        for fd, sock in socks.items():
            sock.setblocking(False)
            epoll.register(fd, select.EPOLLIN)
            sock.send(_REQUEST)
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < SECONDS:
            for fd, _ in epoll.poll():
                try:
                    missing[fd] -= len(socks[fd].recv(65536))
                except ssl.SSLWantReadError:
                    continue
                assert missing[fd] >= 0
                if missing[fd] == 0:
                    done += 1
                    missing[fd] = len(_ANSWER)
                    socks[fd].send(_REQUEST)
    for sock in socks.values():
        sock.close()
    return done / spent


def _connections(context: ssl.SSLContext, address: str) -> float:
    """New connections a second, each with one exchange, 16 at a time."""
    socks: dict[int, tuple[ssl.SSLSocket, bool]] = {}
    done = 0
    with select.epoll() as epoll:

        def begin() -> None:
            sock = socket.create_connection((address, 443), 30)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or it measures the kernel's delayed answers
            sock.setblocking(False)
            made = context.wrap_socket(sock, server_hostname=NAME, do_handshake_on_connect=False)
            socks[made.fileno()] = made, False
            epoll.register(made.fileno(), select.EPOLLIN | select.EPOLLOUT)

        for _ in range(CONNECTIONS):
            begin()
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < SECONDS:
            for fd, _ in epoll.poll():
                sock, asked = socks[fd]
                try:
                    if not asked:
                        epoll.modify(fd, select.EPOLLIN)
                        sock.do_handshake()
                        sock.send(_REQUEST)
                        socks[fd] = sock, True
                        continue
                    assert sock.recv(65536)
                except ssl.SSLWantReadError:
                    continue
                epoll.unregister(fd)
                socks.pop(fd)[0].close()
                done += 1
                begin()
    for sock, _ in socks.values():
        sock.close()
    return done / spent


def _bulk(context: ssl.SSLContext, address: str) -> float:
    room = bytearray(len(_CHUNK))
    got = 0
    with _connected(context, address) as sock:
        sock.sendall(_BULK)
        begun = time.perf_counter()
        while got < BULK_BYTES:
            got += sock.recv_into(room)
        return got / (time.perf_counter() - begun) / 1e6


def _first_event(context: ssl.SSLContext, address: str) -> float:
    """Milliseconds from a request to the first event of its answer."""
    taken = []
    with _connected(context, address) as sock:
        for _ in range(EVENTS):
            begun = time.perf_counter()
            sock.sendall(_STREAM)
            data = b""
            while _EVENT not in data:
                data += sock.recv(65536)
            taken.append((time.perf_counter() - begun) * 1e3)
            while not data.endswith(_EVENTS_END):
                data += sock.recv(65536)
    return statistics.median(taken)


def _first(context: ssl.SSLContext, name: str) -> float:
    address = str(lookup(name))
    begun = time.perf_counter()
    with _connected(context, address, name):
        return (time.perf_counter() - begun) * 1e3


# -- origin ------------------------------------------------------------------------------------------------------------


def _origin(context: ssl.SSLContext) -> int:
    listener = socket.create_server(("127.0.0.1", 443), backlog=1024)
    pid = kernel.clone(0)
    if not pid:
        try:
            _serve(listener, context)
        finally:
            os._exit(1)
    listener.close()
    return pid


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    socks: dict[int, ssl.SSLSocket] = {}
    with select.epoll() as epoll:
        epoll.register(listener.fileno(), select.EPOLLIN)
        while True:
            for fd, _ in epoll.poll():
                if fd == listener.fileno():
                    sock, _ = listener.accept()
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setblocking(False)
                    made = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    socks[made.fileno()] = made
                    epoll.register(made.fileno(), select.EPOLLIN)
                elif not _heard(socks[fd]):
                    epoll.unregister(fd)
                    socks.pop(fd).close()


def _heard(sock: ssl.SSLSocket) -> bool:
    try:
        if sock.version() is None:
            sock.do_handshake()
        data = sock.recv(65536)
        if b"/bulk" in data:
            _pour(sock)
        elif b"/events" in data:
            sock.send(_EVENTS_BEGIN)
            sock.send(_EVENTS_END)
        elif data:
            sock.send(_ANSWER)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False
    return bool(data)


def _pour(sock: ssl.SSLSocket) -> None:
    sock.setblocking(True)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BULK_BYTES)
    for _ in range(BULK_BYTES // len(_CHUNK)):
        sock.sendall(_CHUNK)
    sock.setblocking(False)

"""The door: what the gateway may ask of a box, in order and bounded, whatever it sends and however it behaves."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from paddock import limits
from paddock.engines.guest import door
from paddock.engines.guest.wire import READABLE, Loop, receive_fds
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator


class Opened:
    """A door served by a thread, and the gateway's end of it."""

    def __init__(self) -> None:
        self.loop = Loop()
        tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.gateway, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gateway.settimeout(10)
        self.seal = door.Seal(tcp, udp, ours)
        self.door = door.Door(self.loop, self.seal, ours)
        self._wake, self._waker = os.pipe()
        self._ending = False
        self.loop.want(self._wake, READABLE, self._woken)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._ending:
            self.loop.run_once()

    def _woken(self, _events: int) -> None:
        os.read(self._wake, 1)

    def close(self) -> None:
        self._ending = True
        os.write(self._waker, b"x")
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.door.close()
        for sock in (self.gateway, *self.seal.sockets()):
            sock.close()
        os.close(self._wake)
        os.close(self._waker)
        self.loop._epoll.close()

    def ask(self, op: str, port: object) -> tuple[dict[str, Any], list[socket.socket]]:
        return self.say(json.dumps({"op": op, "port": port}).encode())

    def say(self, data: bytes) -> tuple[dict[str, Any], list[socket.socket]]:
        self.gateway.send(data)
        return self.hear()

    def hear(self) -> tuple[dict[str, Any], list[socket.socket]]:
        data, fds, _ = receive_fds(self.gateway, 65536, 200)
        return json.loads(data), [socket.socket(fileno=fd) for fd in fds]


@pytest.fixture
def opened() -> Iterator[Opened]:
    found = Opened()
    found.start()
    yield found
    found.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_first_message_carries_every_socket() -> None:
    tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with tcp, udp, ours, theirs:
        seal = door.Seal(tcp, udp, ours)
        port = free_port()
        seal.listen(port)
        seal.announce(ours)
        data, fds, _ = receive_fds(theirs, 4096, 200)
        assert json.loads(data) == {"sealed": True}
        found = [socket.socket(fileno=fd) for fd in fds]
        assert [sock.type for sock in found[:2]] == [socket.SOCK_STREAM, socket.SOCK_DGRAM]
        assert {sock.getsockname()[:2] for sock in found[2:]} == {("127.0.0.1", port), ("::1", port)}
        assert len(seal.descriptors()) == 5
        for sock in found:
            sock.close()
        seal.unlisten(port)


def test_as_many_ports_as_a_box_may_have_fit_one_message() -> None:
    assert 2 + 2 * door.PORTS_MAX <= 253
    assert (door.PORTS_MAX, door.MESSAGE_BYTES) == (limits.LOCALHOST_PORTS_MAX, limits.DOOR_MESSAGE_BYTES)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_dial_is_a_connection_to_the_loopback(opened: Opened, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        answer, (sock,) = opened.ask("dial", server.getsockname()[1])
        assert answer == {"ok": True}
        with sock, server.accept()[0] as peer:
            sock.setblocking(True)
            sock.sendall(b"hello")
            assert peer.recv(10) == b"hello"
            sock.shutdown(socket.SHUT_WR)
            assert peer.recv(10) == b"", "no copy of it is left in here"


def test_a_dial_to_nobody_is_refused(opened: Opened) -> None:
    before = descriptors()
    for _ in range(20):
        assert opened.ask("dial", free_port()) == ({"error": "ECONNREFUSED"}, [])
    assert descriptors() == before


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"[]",
        b"null",
        b"{}",
        b'{"op":"dial"}',
        b'{"op":"dial","port":0}',
        b'{"op":"dial","port":65536}',
        b'{"op":"dial","port":-1}',
        b'{"op":"dial","port":true}',
        b'{"op":"dial","port":"80"}',
        b'{"op":"dial","port":8e1}',
        b'{"op":"exec","port":80}',
        b'{"op":["dial"],"port":80}',
        b'{"op":{},"port":80}',
        b'{"port":80}',
        b"[" * 4096,
        b"\xff\xfe",
        b'{"op":"dial","port":80}' + b" " * 4096,
    ],
)
def test_what_is_no_request_is_refused_and_the_door_stays(opened: Opened, data: bytes) -> None:
    assert opened.say(data) == ({"error": "EINVAL"}, [])
    assert opened.ask("unlisten", 9) == ({"ok": True}, [])


def test_descriptors_that_nobody_asked_for_are_not_kept(opened: Opened) -> None:
    before = descriptors()
    with open("/dev/null", "rb") as file:
        socket.send_fds(opened.gateway, [b'{"op":"unlisten","port":9}'], [file.fileno()] * 100)
        assert opened.hear() == ({"ok": True}, [])
    assert descriptors() == before


def test_a_port_is_listened_on_until_it_is_given_up(opened: Opened) -> None:
    port = free_port()
    answer, listeners = opened.ask("listen", port)
    assert answer == {"ok": True}
    again, same = opened.ask("listen", port)
    assert again == {"ok": True}
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, port), 5):
            pass
    assert len(listeners) == len(same) == 2
    for sock in (*listeners, *same):
        sock.close()
    assert opened.ask("unlisten", port) == ({"ok": True}, [])
    assert opened.ask("dial", port) == ({"error": "ECONNREFUSED"}, [])
    assert opened.ask("unlisten", port) == ({"ok": True}, [])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_port_of_the_boxs_own_is_not_taken_from_it(opened: Opened, address: str) -> None:
    before = descriptors()
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        assert opened.ask("listen", server.getsockname()[1]) == ({"error": "EADDRINUSE"}, [])
    assert descriptors() == before
    assert opened.seal.listeners == {}


def test_ports_are_bounded(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PORTS_MAX", 2)
    for wanted in ({"ok": True}, {"ok": True}, {"error": "ENOSPC"}):
        answer, listeners = opened.ask("listen", free_port())
        assert answer == wanted
        for sock in listeners:
            sock.close()


class Full:
    """A server whose queue is full: nobody is taken, nobody is refused."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = self.server.getsockname()[1]
        self.waiting = [socket.socket() for _ in range(4)]
        for sock in self.waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))

    def close(self) -> None:
        for sock in (self.server, *self.waiting):
            sock.close()


@pytest.fixture
def full() -> Iterator[Full]:
    found = Full()
    yield found
    found.close()


def test_a_dial_to_a_server_that_takes_nobody_ends_in_time(
    opened: Opened, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "DIAL_S", 0.2)
    for _ in range(3):
        before = time.monotonic()
        assert opened.ask("dial", full.port) == ({"error": "ETIMEDOUT"}, [])
        assert 0.1 < time.monotonic() - before < 3
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer, (sock,) = opened.ask("dial", server.getsockname()[1])
        sock.close()
        assert answer == {"ok": True}, "it goes on with the next"


def test_a_dial_that_waits_is_answered_when_it_is_taken(opened: Opened, full: Full) -> None:
    opened.gateway.send(json.dumps({"op": "dial", "port": full.port}).encode())
    until(lambda: opened.door._dial is not None, "it waits")
    full.server.listen(64)
    for _ in range(len(full.waiting)):
        full.server.accept()[0].close()
    answer, (sock,) = opened.hear()
    sock.close()
    assert answer == {"ok": True}


def test_a_gateway_that_dies_shuts_its_door_and_nothing_else(opened: Opened, full: Full) -> None:
    before = descriptors()
    opened.gateway.send(json.dumps({"op": "dial", "port": full.port}).encode())
    opened.gateway.send(b'{"op":"unlisten","port":9}')
    until(lambda: opened.door._dial is not None, "it waits")
    opened.gateway.close()
    until(lambda: opened.door._sock.fileno() < 0, "the door is shut")
    until(lambda: descriptors() == before - 2, "the dial is given up")
    assert all(sock.fileno() >= 0 for sock in opened.seal.sockets())


def test_a_flood_of_requests_waits_in_the_socket_and_is_answered_in_order(opened: Opened) -> None:
    before = descriptors()
    opened.gateway.settimeout(0.2)
    sent = []
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as server:
        port = server.getsockname()[1]
        try:
            for number in range(100_000):
                value = port if number % 2 else 0
                opened.gateway.send(json.dumps({"op": "dial", "port": value}).encode())
                sent.append(value)
        except TimeoutError:
            pass  # nobody reads our answers, so nobody reads our requests
        assert 10 < len(sent) < 100_000
        assert descriptors() < before + 20, "no more than one answer is held"
        opened.gateway.settimeout(10)
        for value in sent:
            answer, sockets = opened.hear()
            assert answer == ({"ok": True} if value else {"error": "EINVAL"})
            assert len(sockets) == bool(value)
            for sock in sockets:
                sock.close()
    until(lambda: descriptors() == before, "nothing is left")

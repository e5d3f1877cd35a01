"""What one box sends costs another box neither its time nor the gateway its memory."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.policy import OnDeny
from tests.support.origins_plain import echo
from tests.support.scene import Scene, connect, lookup, play, policy

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.box

FLOODED_S = 4.0
CONNECTIONS = 120
ALLOWED_S = 1.0  # for one byte there and back; a gateway that does not share takes ten
FLOODS = {
    "small requests": (b"", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" * 1000),
    "small chunks": (b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 5000),
    "opaque bytes": (b"\0", bytes(65536)),
}


def gateway_rss_bytes(scene: Scene) -> int:
    lines = Path(f"/proc/{scene.gateway.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * limits.KIB


def flood(address: tuple[str, int], begin: bytes, data: bytes, told: int) -> int:
    """Send as fast as it is taken, on many connections; how many bytes were."""
    socks = [socket.create_connection(address, 20) for _ in range(CONNECTIONS)]
    for sock in socks:
        sock.sendall(begin)
        sock.setblocking(False)
    os.write(told, b"x")
    left = dict.fromkeys(socks, data)
    count = 0
    end = time.monotonic() + FLOODED_S
    while time.monotonic() < end:
        for sock in socks:
            with contextlib.suppress(BlockingIOError):
                sent = sock.send(left[sock])
                count += sent
                left[sock] = left[sock][sent:] or data
        time.sleep(0.001)
    return count


def slowest_s() -> float:
    """Of bytes to the origin and back, on an old and on a new connection each time."""
    worst = 0.0
    end = time.monotonic() + FLOODED_S / 2
    with connect("b.test", 81) as old:
        old.settimeout(20)
        while time.monotonic() < end:
            began = time.monotonic()
            old.sendall(b"x")
            assert old.recv(1) == b"x"
            with connect("b.test", 81) as new:
                new.sendall(b"y")
                assert new.recv(1) == b"y"
            worst = max(worst, time.monotonic() - began)
    return worst


def swallow(heard: list[int]) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        while data := sock.recv(1 << 20):
            heard.append(len(data))

    return serve


@pytest.mark.parametrize("kind", FLOODS)
def test_a_box_that_floods_the_gateway_does_not_slow_another_down(kind: str) -> None:
    begin, data = FLOODS[kind]

    def act(scene: Scene) -> None:
        heard: list[int] = []
        port = 82 if kind == "opaque bytes" else 80
        scene.origin(port, swallow(heard))
        scene.origin(81, echo)
        scene.names("a.test", "b.test")
        bad, good = scene.box(policy("a.test")), scene.box(policy("b.test"))
        ready, told = os.pipe()
        flooding = bad.begin(lambda: flood((str(lookup("a.test")), port), begin, data, told))
        assert os.read(ready, 1) == b"x"
        worst_s = good.inside(slowest_s)
        assert flooding() > 1 << 20
        assert sum(heard) > 1 << 20  # the flood was one, and reached its origin
        assert worst_s < ALLOWED_S

    play(act)


def test_requests_that_wait_for_another_server_are_not_kept_parsed() -> None:
    """A client may send requests for a second host long before the first has answered: here it never does."""

    def wait(done: int) -> None:
        body = b"x" * 200_000
        first = b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        second = b"GET http://c.test/ HTTP/1.1\r\nHost: c.test\r\n\r\n" * 1000
        socks = [socket.create_connection((limits.GATEWAY_ADDRESS, limits.PROXY_PORT), 20) for _ in range(CONNECTIONS)]
        for sock in socks:
            sock.sendall(first)
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.send(second)
        os.read(done, 1)

    def act(scene: Scene) -> None:
        heard: list[int] = []
        scene.origin(80, swallow(heard))
        scene.names("a.test", "c.test")
        box = scene.box(policy("a.test", "c.test"))
        before = gateway_rss_bytes(scene)
        waiting, done = os.pipe()
        going = box.begin(lambda: wait(waiting))
        deadline = time.monotonic() + 10
        while sum(heard) < CONNECTIONS * 200_000 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sum(heard) > CONNECTIONS * 200_000  # all of them wait for an answer to the first
        time.sleep(0.5)
        grown = gateway_rss_bytes(scene) - before
        os.write(done, b"x")
        going()
        assert grown < CONNECTIONS * 128 * limits.KIB

    play(act)


def test_a_name_with_many_dead_addresses_does_not_take_a_descriptor_for_each() -> None:
    addresses = tuple(f"127.0.1.{last}" for last in range(1, 17))
    count = 20

    def attempts() -> int:
        """Connections of the host that nobody has answered yet."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(state == "02" and remote.endswith(f":{2222:04X}") for _, _, remote, state, *_ in lines)

    def try_all(done: int) -> int:
        socks = [connect(f"n{number}.a.test", 2222) for number in range(count)]
        os.read(done, 1)
        return len(socks)

    def act(scene: Scene) -> None:
        with contextlib.ExitStack() as dead:  # nobody accepts there, and their queues are full
            for address in addresses:
                listener = dead.enter_context(socket.socket())
                listener.bind((address, 2222))
                listener.listen(0)
                for _ in range(2):
                    waiting = dead.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex((address, 2222))
            scene.hosts |= {f"n{number}.a.test": addresses for number in range(count)}
            scene.know()
            box = scene.box(policy("*.a.test"))
            before = attempts()
            waiting_for, done = os.pipe()
            going = box.begin(lambda: try_all(waiting_for))
            end = time.monotonic() + 2.0
            most = 0
            while time.monotonic() < end:
                most = max(most, attempts() - before)
                time.sleep(0.05)
            os.write(done, b"x")
            assert going() == count
            assert count <= most <= 3 * count  # two each; the list is not of one moment

    play(act)


def test_questions_of_one_box_do_not_hide_those_of_another() -> None:
    def ask(count: int) -> int:
        for number in range(count):
            with socket.create_connection((limits.GATEWAY_ADDRESS, limits.PROXY_PORT), 10) as sock:
                name = f"n{number}.test:443"
                sock.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
                assert b"403" in sock.recv(4096)
        return count

    def act(scene: Scene) -> None:
        boxes = [scene.box(policy(on_deny=OnDeny.ASK)) for _ in range(4)]
        for box in boxes[:-1]:
            assert box.inside(lambda: ask(limits.ASKS_PER_BOX)) == limits.ASKS_PER_BOX
        assert boxes[-1].inside(lambda: ask(2)) == 2
        asked = [pending.box for pending in scene.run(scene.gateway.pending())]
        assert len(asked) == 128  # the list is full
        assert asked.count(boxes[-1].name) == 2

    play(act)

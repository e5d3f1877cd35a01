"""What passes on inspected connections: streams, uploads, websockets and large bodies, in bounds."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from tests.gateway.test_inspected import CLOSE, CONTENT, KEY, requests
from tests.support import keyupdates
from tests.support.inspecting import (
    API,
    OTHER,
    Roots,
    ask,
    document,
    drain,
    get,
    inspected_box,
    secret,
    secured,
)
from tests.support.installation import until
from tests.support.origins_plain import web, websocket
from tests.support.scene import Scene, connect, play, policy

if TYPE_CHECKING:
    import socket

pytestmark = pytest.mark.box
FLOOD_BYTES = 16 << 20


def test_an_event_is_read_before_the_next_is_sent() -> None:
    def act(scene: Scene) -> None:
        asked = threading.Event()

        def origin(sock: socket.socket) -> None:
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in range(3):
                sock.sendall(b"b\r\ndata: {%d}\n\n\r\n" % number)
                if not asked.wait(10):
                    return  # and so the client never gets to the end
                asked.clear()
            sock.sendall(b"0\r\n\r\n")

        Roots(scene).serve(origin)
        box = inspected_box(scene, CONTENT)
        next_one, wanted = os.pipe()

        def relay() -> None:
            while os.read(next_one, 1):
                asked.set()

        threading.Thread(target=relay, daemon=True).start()

        def events() -> str:
            with secured(box) as sock:
                sock.settimeout(15)
                sock.sendall(get("/events", KEY))
                data = b""
                for number in range(3):
                    while b"data: {%d}\n\n" % number not in data:
                        data += sock.recv(65536)
                    os.write(wanted, b"x")
                while not data.endswith(b"0\r\n\r\n"):
                    data += sock.recv(65536)
                return data.decode()

        assert box.inside(events).count("data: ") == 3
        assert requests(box) == [("allow", "GET", "/events", 200, "api")]

    play(act)


def patient(sock: socket.socket) -> None:
    """Asks for the body of an upload, or leaves HTTP."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    if b"Expect" in head:
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" + sock.recv(5))
    else:
        sock.sendall(b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        while data := sock.recv(65536):
            sock.sendall(data)


def test_uploads_that_wait_to_be_asked_for_and_websockets_pass() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(patient)
        box = inspected_box(scene, CONTENT)

        def upload() -> str:
            with secured(box) as sock:
                sock.settimeout(10)
                sock.sendall(get("/", "Expect: 100-continue", "Content-Length: 5", method="POST"))
                assert b"100 Continue" in sock.recv(65536)
                sock.sendall(b"hello")
                return drain(sock)

        assert box.inside(upload).endswith("hello")

        def chat() -> str:
            with secured(box) as sock:
                sock.settimeout(10)
                sock.sendall(get("/ws", "Connection: Upgrade", "Upgrade: websocket", KEY))
                assert b"101 Yes" in sock.recv(65536)
                sock.sendall(b"\x81\x05hello")
                return sock.recv(65536).decode("latin-1")

        assert box.inside(chat) == "\x81\x05hello"
        until(lambda: [each[3] for each in requests(box)] == [200, 101], "both are recorded")

    play(act)


def test_a_websocket_ends_when_other_rules_about_requests_come_and_http_does_not() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(patient)
        rules = [f"allow WEBSOCKET,POST {API}"]
        box = inspected_box(scene, b"", requests=rules)
        turn, told = os.pipe()

        def chat() -> str:
            with secured(box) as sock:
                sock.settimeout(10)
                sock.sendall(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
                assert b"101 Yes" in sock.recv(65536)
                os.write(told, b"x")
                return drain(sock)

        def idle() -> str:
            with secured(box) as sock:
                sock.settimeout(10)
                os.write(told, b"x")
                sock.sendall(get("/", "Expect: 100-continue", "Content-Length: 5", method="POST"))
                assert b"100 Continue" in sock.recv(65536)
                os.write(told, b"x")
                os.read(go, 1)
                sock.sendall(b"hello")
                return drain(sock)

        go, gone = os.pipe()
        chats, posts = box.begin(chat), box.begin(idle)
        for _ in range(3):
            os.read(turn, 1)
        same = policy(API, OTHER, "more.test", requests=rules)
        assert scene.run(scene.gateway.set_policy(box.name, same)) == 0
        fewer = policy(API, OTHER, requests=[f"allow POST {API}"])
        assert scene.run(scene.gateway.set_policy(box.name, fewer)) == 1
        os.write(gone, b"x")
        assert "hello" not in chats()
        assert posts().endswith("hello"), "a request that has begun ends"

    play(act)


SIZE = 256 << 20


def pour(sock: socket.socket) -> None:
    """Answers an upload with its size, and everything else with a large body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    if head.startswith(b"PUT"):
        room, got = bytearray(1 << 16), 0
        while got < SIZE:
            got += sock.recv_into(room)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: %d\r\nConnection: close\r\n\r\n" % got)
    else:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % SIZE)
        for _ in range(SIZE >> 16):
            sock.sendall(bytes(1 << 16))


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def test_large_bodies_pass_in_constant_memory_also_when_one_side_is_slow() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(pour)
        box = inspected_box(scene, document(secret(body=True)))

        def get_all() -> int:
            with secured(box) as sock:
                sock.settimeout(30)
                sock.sendall(get("/", KEY))
                time.sleep(0.5)  # the gateway and the origin go on without us as far as they can
                room, got = bytearray(1 << 16), 0
                while count := sock.recv_into(room):
                    got += count
                return got

        def put_all() -> str:
            with secured(box) as sock:
                sock.settimeout(30)
                sock.sendall(get("/", f"Content-Length: {SIZE}", method="PUT"))
                for _ in range(SIZE >> 16):
                    sock.sendall(bytes(1 << 16))
                return drain(sock)

        box.inside(lambda: ask(box, get("/", host=OTHER)))
        before = resident(scene.gateway.pid)
        assert box.inside(get_all) > SIZE
        assert f"X-Got: {SIZE}" in box.inside(put_all)
        assert resident(scene.gateway.pid) - before < 16 << 20
        assert [each[3] for each in requests(box)][1:] == [200, 200]

    play(act)


def test_who_asks_for_new_keys_and_never_reads_the_answers_is_hung_up_on() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        box = inspected_box(scene, CONTENT)

        def flood() -> bool:
            with connect(API, 443) as sock:
                sock.settimeout(20)
                return keyupdates.Client(sock, API).flood(FLOOD_BYTES)

        assert "200" in box.inside(lambda: ask(box, get("/", CLOSE)))
        before = resident(scene.gateway.pid)
        assert not box.inside(flood)
        assert resident(scene.gateway.pid) - before < 8 << 20
        assert "200" in box.inside(lambda: ask(box, get("/", CLOSE)))

    play(act)


BODILESS = {
    b"HEAD": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    b"GET": b"HTTP/1.1 304 Not Modified\r\nETag: a\r\nContent-Length: 1000\r\n\r\n",
    b"DELETE": b"HTTP/1.1 204 No Content\r\n\r\n",
    b"POST": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
}


def test_answers_without_a_body_leave_the_connection_to_the_next_request() -> None:
    def act(scene: Scene) -> None:
        connections: list[int] = []

        def origin(sock: socket.socket) -> None:
            connections.append(1)
            while data := sock.recv(65536):
                sock.sendall(BODILESS[data.split()[0]])

        Roots(scene).serve(origin)
        box = inspected_box(scene, CONTENT)

        def several() -> list[str]:
            said = []
            with secured(box) as sock:
                sock.settimeout(10)
                for method in ("HEAD", "GET", "DELETE", "HEAD", "POST"):
                    sock.sendall(get("/", KEY, method=method))
                    data = b""
                    while not data.endswith(b"0\r\n\r\n" if method == "POST" else b"\r\n\r\n"):
                        data += sock.recv(65536)
                    said.append(data.decode())
            return said

        said = box.inside(several)
        assert [each[9:12] for each in said] == ["200", "304", "204", "200", "200"]
        assert "Content-Length: 1000" in said[0]
        assert "ETag: a" in said[1]
        assert said[4].endswith("2\r\nok\r\n0\r\n\r\n")
        assert connections == [1], "one connection for all"
        assert [each[3] for each in requests(box)] == [200, 304, 204, 200, 200]

    play(act)


def test_a_box_has_only_so_many_inspected_connections_and_they_come_back() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        box = inspected_box(scene, CONTENT)

        def many() -> str:
            with contextlib.ExitStack() as stack:
                for _ in range(limits.INSPECTED_PER_BOX):
                    stack.enter_context(secured(box))
                return ask(box, get("/", CLOSE))

        assert "too many connections of this box are inspected already" in box.inside(many)
        until(lambda: scene.run(scene.gateway.stats()).boxes[0].flows == 0, "all have ended")
        assert "200 OK" in box.inside(lambda: ask(box, get("/", CLOSE)))

    play(act)


def test_a_websocket_server_that_says_no_is_still_http() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(websocket)
        box = inspected_box(scene, CONTENT)
        data = get("/refuse", "Connection: Upgrade", "Upgrade: websocket") + get("/next", CLOSE)
        said = box.inside(lambda: ask(box, data))
        assert said.count("200 OK") == 2

    play(act)


def test_the_last_words_of_a_websocket_reach_a_server_that_is_slow_to_read() -> None:
    def act(scene: Scene) -> None:
        go, gone = threading.Event(), threading.Event()
        got: list[int] = []

        def origin(sock: socket.socket) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            sock.sendall(b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            go.wait(20)
            count = 0
            while data := sock.recv(1 << 16):
                count += len(data)
            got.append(count)
            gone.set()

        Roots(scene).serve(origin)
        box = inspected_box(scene, CONTENT)

        def say() -> int:
            with secured(box) as sock:
                sock.sendall(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
                assert b"101 Yes" in sock.recv(65536)
                sock.setblocking(False)
                count = 0
                with contextlib.suppress(ssl.SSLWantWriteError):
                    while True:
                        count += sock.send(bytes(1 << 14))
                sock.setblocking(True)
                sock.settimeout(0.1)
                return count

        said = box.inside(say)
        go.set()
        assert gone.wait(20)
        assert got[0] >= said > 0

    play(act)

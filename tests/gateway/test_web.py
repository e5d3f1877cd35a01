"""Every request on a connection is judged, and what follows a refused one never reaches anybody."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from tests.support.origins_plain import web, websocket
from tests.support.scene import Scene, connect, play, policy, talk

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.box

PROXY = (limits.GATEWAY_ADDRESS, limits.PROXY_PORT)


def get(host: str, path: str = "/", *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def answers(sock: socket.socket, count: int) -> list[str]:
    """`count` answers with a length, whole."""
    found: list[str] = []
    data = b""
    sock.settimeout(10)
    while len(found) < count:
        head, mark, rest = data.partition(b"\r\n\r\n")
        if mark:
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(rest) >= length:
                found.append((head + mark + rest[:length]).decode("latin-1"))
                data = rest[length:]
                continue
        piece = sock.recv(65536)
        assert piece, f"ended after {found} {data!r}"
        data += piece
    return found


def world(scene: Scene, *allowed: str) -> Callable[[Callable[[], object]], object]:
    scene.origin(80, web)
    scene.names("allowed.test", "other.test", "denied.test")
    return scene.box(policy(*(allowed or ("allowed.test", "other.test")))).inside


def test_many_requests_on_one_connection_each_get_their_answer() -> None:
    def act(scene: Scene) -> None:
        def inside() -> list[str]:
            sock = connect("allowed.test", 80)
            said = []
            for number in range(20):
                sock.sendall(get("allowed.test", f"/{number}"))
                said += answers(sock, 1)
            return said

        said = world(scene)(inside)
        assert isinstance(said, list)
        assert [f"GET /{number} " in answer for number, answer in enumerate(said)] == [True] * 20

    play(act)


def test_requests_sent_ahead_are_answered_in_order_and_the_one_for_another_host_is_refused_after_them() -> None:
    def act(scene: Scene) -> None:
        def inside() -> str:
            ahead = b"".join(get("allowed.test", f"/{number}") for number in range(5))
            return talk(connect("allowed.test", 80), ahead + get("other.test", "/bad") + get("allowed.test", "/after"))

        said = str(world(scene)(inside))
        assert [said.count(f"GET /{number} ") for number in range(5)] == [1] * 5
        assert said.count("200 OK") == 5
        assert said.index("GET /4 ") < said.index("403 Forbidden")
        assert "/after" not in said

    play(act)


def test_a_body_arrives_whole_however_it_is_framed_and_cut() -> None:
    def act(scene: Scene) -> None:
        def inside() -> list[str]:
            sock = connect("allowed.test", 80)
            for piece in (b"POST / HTTP/1.1\r\nHo", b"st: allowed.test\r\nContent-Length: 6\r\n\r\nab", b"cdef"):
                sock.sendall(piece)
            said = answers(sock, 1)
            sock.sendall(
                b"POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            )
            return said + answers(sock, 1)

        said = world(scene)(inside)
        assert isinstance(said, list)
        plain, chunked = said
        assert plain.endswith("abcdef")
        assert chunked.endswith("3\r\nabc\r\n0\r\n\r\n")

    play(act)


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: other.test\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.test\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: allowed.test\n\n",
        b"GET http://other.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: allowed.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n",
    ],
)
def test_malformed_and_smuggled_requests_are_refused_and_reach_nobody(data: bytes) -> None:
    def act(scene: Scene) -> None:
        heard: list[bytes] = []

        def serve(sock: socket.socket) -> None:
            heard.append(sock.recv(65536))

        scene.origin(80, serve)
        scene.names("allowed.test", "other.test")
        box = scene.box(policy("allowed.test", "other.test"))
        said = box.inside(lambda: talk(connect("allowed.test", 80), data + get("allowed.test", "/next")))
        assert said.startswith(("HTTP/1.1 4", "HTTP/1.1 505"))
        assert [data for data in heard if data] == []

    play(act)


def test_what_is_for_a_proxy_only_is_not_sent_on() -> None:
    def act(scene: Scene) -> None:
        def inside() -> str:
            headers = (
                "Proxy-Authorization: x",
                "X-Forwarded-For: 1.2.3.4",
                "Upgrade: h2c",
                "Connection: upgrade, x-own",
            )
            return talk(
                connect("allowed.test", 80), get("allowed.test", "/", *headers, "X-Own: y", "Connection: close")
            )

        said = str(world(scene)(inside))
        for header in ("Proxy-Authorization", "X-Forwarded-For", "h2c", "X-Own"):
            assert header not in said

    play(act)


def test_a_proxys_connection_goes_to_each_requests_host_and_each_is_judged() -> None:
    def act(scene: Scene) -> None:
        def inside() -> str:
            ahead = b"".join(
                get(name, f"http://{name}/{name}") for name in ("allowed.test", "other.test", "denied.test")
            )
            return talk(socket.create_connection(PROXY, 10), ahead)

        said = str(world(scene)(inside))
        assert said.count("200 OK") == 2
        assert said.index("GET /allowed.test ") < said.index("GET /other.test ") < said.index("403 Forbidden")
        assert "denied.test:80 is denied" in said

    play(act)


def test_a_request_that_is_none_for_a_proxy_is_told_so() -> None:
    def act(scene: Scene) -> None:
        said = world(scene)(lambda: talk(socket.create_connection(PROXY, 10), get("allowed.test")))
        assert "this is a proxy" in str(said)

    play(act)


def test_a_websocket_leaves_http_when_the_server_says_so_and_stays_when_not() -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, websocket)
        scene.names("allowed.test")
        box = scene.box(policy("allowed.test"))
        headers = ("Upgrade: websocket", "Connection: Upgrade")

        def agreed() -> str:
            sock = connect("allowed.test", 80)
            sock.sendall(get("allowed.test", "/", *headers))
            assert b" 101 " in sock.recv(65536)
            sock.sendall(b"\x81\x00no http")
            said = b""
            while len(said) < 9:
                said += sock.recv(100)
            sock.close()
            return said.hex()

        def refused() -> list[str]:
            sock = connect("allowed.test", 80)
            sock.sendall(get("allowed.test", "/refuse", *headers) + get("allowed.test", "/two"))
            said = answers(sock, 2)
            sock.sendall(get("other.test", "/three"))
            return [*said, talk(sock)]

        assert box.inside(agreed) == b"\x81\x00no http".hex()
        first, second, third = box.inside(refused)
        assert first.endswith("http")
        assert "GET /two " in second
        assert "403 Forbidden" in third, "it is still HTTP, and still judged"

    play(act)


def test_who_asks_for_the_head_only_gets_no_body_of_a_refusal() -> None:
    def act(scene: Scene) -> None:
        head = b"HEAD / HTTP/1.1\r\nHost: denied.test\r\n\r\n"
        said = str(world(scene)(lambda: talk(connect("denied.test", 80), head)))
        assert said.startswith("HTTP/1.1 403")
        assert said.endswith("\r\n\r\n")

    play(act)

"""Real servers behind the gateway see the requests that it judged: exactly one where something else was tried."""

from __future__ import annotations

import functools
import os
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.support import real_origins
from tests.support.inspecting import API, PLACEHOLDER, VALUE, Roots, ask, document, get, inspected_box, secret, secured
from tests.support.real_origins import PORT, SERVERS, Origin
from tests.support.scene import Scene, play

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.box

HOST = f"{API}:{PORT}"
HIDDEN = f"GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
LENGTH = f"Content-Length: {len(HIDDEN)}"
STEPS = (100_000, 7)
CHUNKED = "Transfer-Encoding: chunked"


def post(*headers: str, body: str = HIDDEN) -> str:
    return "\r\n".join(["POST /asked HTTP/1.1", f"Host: {HOST}", *headers, "", ""]) + body


ATTEMPTS = {
    "length and chunks": post("Content-Length: 4", CHUNKED, body="0\r\n\r\n" + HIDDEN),
    "chunks and length": post(CHUNKED, LENGTH, body="0\r\n\r\n" + HIDDEN),
    "a coding that is nearly chunked": post("Transfer-Encoding: xchunked", LENGTH),
    "a coding before chunked": post("Transfer-Encoding: identity, chunked", body="0\r\n\r\n" + HIDDEN),
    "a blank before the colon": post("Transfer-Encoding : chunked", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "a control in the coding": post("Transfer-Encoding: chunked\x0b", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "a coding on the next line": post("Transfer-Encoding:\r\n chunked", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "two codings": post(CHUNKED, "Transfer-Encoding: identity", body="0\r\n\r\n" + HIDDEN),
    "an underscore": post("Transfer_Encoding: chunked", "Content-Length: 0"),
    "two lengths": post("Content-Length: 0", LENGTH),
    "a list of lengths": post(f"Content-Length: 0, {len(HIDDEN)}"),
    "a signed length": post(f"Content-Length: +{len(HIDDEN)}"),
    "a length in hexadecimal": post("Content-Length: 0x0"),
    "a length that is to be dropped": post(LENGTH, "Connection: Content-Length"),
    "a name with a null": post("Content-Length\0: 0", LENGTH),
    "bare line feeds": f"POST /asked HTTP/1.1\nHost: {HOST}\nContent-Length: 0\n\n{HIDDEN}",
    "a bare line feed at the end of the head": f"GET /asked HTTP/1.1\r\nHost: {HOST}\r\nX: y\n\n{HIDDEN}",
    "a bare carriage return": f"GET /asked HTTP/1.1\rX: y\r\nHost: {HOST}\r\n\r\n",
    "a folded line": f"GET /asked HTTP/1.1\r\nHost: {HOST}\r\nX: y\r\n {HIDDEN}",
    "a blank in the target": f"GET /asked HTTP/1.1\r\nHost: {HOST}\r\n\r\n".replace("/asked", "/asked HTTP/1.1\r\nX:"),
    "a chunk with an extension": post(CHUNKED, body="5;a=\n\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a chunk with a sign": post(CHUNKED, body="-1\r\n\r\n" + HIDDEN),
    "a chunk in hexadecimal": post(CHUNKED, body="0x5\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a chunk that does not end": post(CHUNKED, body="5\r\nhello!\r\n0\r\n\r\n" + HIDDEN),
    "chunks that end with a line feed": post(CHUNKED, body="5\nhello\n0\n\n" + HIDDEN),
    "a huge chunk": post(CHUNKED, body="10000000000000000\r\n" + HIDDEN),
    "a trailer that says a length": post(CHUNKED, body="0\r\nContent-Length: 99\r\n\r\n" + HIDDEN),
    "a body in a GET": f"GET /asked HTTP/1.1\r\nHost: {HOST}\r\n{LENGTH}\r\n\r\n{HIDDEN}",
    "a body nobody waits for": post("Expect: 100-continue", LENGTH),
    "another protocol": post("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA", LENGTH),
    "an older version": f"POST /asked HTTP/1.0\r\nHost: {HOST}\r\n{CHUNKED}\r\n\r\n0\r\n\r\n{HIDDEN}",
    "a line break in the target": get("/asked%0d%0a%0d%0aGET%20/smuggled%20HTTP/1.1", host=HOST).decode(),
    "another host": get("/asked", host="other.test").decode() + HIDDEN,
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_real_server_sees_one_request_whatever_was_hidden_in_it(kind: str, tmp_path: Path) -> None:  # PRX-15
    if real_origins.missing(kind):
        pytest.skip(f"{kind} is not installed")
    words = real_origins.prepare(kind, tmp_path)
    os.chmod(tmp_path, 0o755)

    def act(scene: Scene) -> None:
        roots = Roots(scene)
        scene.names(API)
        place = scene.directory / "origin"
        place.mkdir()
        box = inspected_box(scene, document(secret(port=PORT)))
        with Origin(kind, words, place, roots, API) as origin:
            two = get("/first", host=HOST) + get("/second", "Connection: close", host=HOST)
            said = box.inside(functools.partial(ask, box, two, API, PORT))
            assert said.count("HTTP/1.1 200 ") == 2
            assert origin.seen() == ["GET /first", "GET /second"], "two that were asked for are two"
            box.inside(lambda: all_tried(lambda: secured(box, API, PORT)))
            seen = origin.seen()[2:]
            context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())
            all_tried(lambda: context.wrap_socket(socket.create_connection(("127.0.0.1", PORT)), server_hostname=API))
            direct = origin.seen()[2 + len(seen) :]
        asked = [each.split()[1].partition("%")[0] for each in seen]
        assert set(asked) <= {f"/asked-{number}-{step}" for number in range(len(ATTEMPTS)) for step in STEPS}
        assert len(set(asked)) == len(asked) >= 4, "some of them are requests, and none is two"
        assert any(" /smuggled" in each for each in direct), "as the server sees it without us"
        assert scene.log == ""

    play(act)


def all_tried(connected: Callable[[], ssl.SSLSocket]) -> None:
    """Every attempt on a connection of its own, whole and in pieces."""
    with ThreadPoolExecutor(16) as several:
        for number, data in enumerate(ATTEMPTS.values()):
            for step in STEPS:
                several.submit(tried, connected, data.replace("/asked", f"/asked-{number}-{step}"), step)


def tried(connected: Callable[[], ssl.SSLSocket], data: str, step: int) -> None:
    raw = data.encode("latin-1")
    with connected() as sock:
        sock.settimeout(1)
        try:
            for at in range(0, len(raw), step):
                sock.sendall(raw[at : at + step])
            while sock.recv(65536):
                pass
        except OSError:
            pass  # refused, or the server waits for more


def test_a_body_is_swapped_across_its_pieces_and_real_servers_read_its_length(tmp_path: Path) -> None:
    kinds = [kind for kind in ("go", "node", "python") if not real_origins.missing(kind)]
    words = {kind: real_origins.prepare(kind, tmp_path) for kind in kinds}
    os.chmod(tmp_path, 0o755)

    def act(scene: Scene) -> None:
        roots = Roots(scene)
        scene.names(API)
        box = inspected_box(scene, document(secret(body=True, port=PORT, value=VALUE + "-and-longer")))
        for kind in kinds:
            place = scene.directory / kind
            place.mkdir()
            with Origin(kind, words[kind], place, roots, API) as origin:
                body = b'{"key": "' + PLACEHOLDER.encode() + b'"}'
                data = (
                    get("/body", f"Content-Length: {len(body)}", "Connection: close", method="POST", host=HOST) + body
                )
                said = box.inside(functools.partial(ask, box, data, API, PORT))
                if kind != "python":  # which answers with no size
                    assert f"{len(body) + len('-and-longer')}\n" in said
                assert origin.seen() == ["POST /body"]

    play(act)

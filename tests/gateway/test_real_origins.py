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
from tests.support.inspecting import (
    API,
    OTHER,
    PLACEHOLDER,
    VALUE,
    Roots,
    ask,
    document,
    get,
    inspected_box,
    secret,
    secured,
)
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
REFUSED = {"400", "413", "421", "431", "505"}


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
    "another host in the target": get("http://other.test/asked", host=HOST).decode(),
    "a proxy's target": get(f"https://{HOST}/asked", host=HOST).decode(),
    "two hosts": get("/asked", "Host: other.test", host=HOST).decode(),
    "a host with a user": get("/asked", host=f"other.test@{HOST}").decode(),
    "no host": "GET /asked HTTP/1.1\r\n\r\n",
    "the next request is for another host": get("/asked", host=HOST).decode() + get("/smuggled", host=OTHER).decode(),
    "chunked twice": post(CHUNKED, CHUNKED, body="0\r\n\r\n" + HIDDEN),
    "chunked and chunked": post("Transfer-Encoding: chunked, chunked", body="0\r\n\r\n" + HIDDEN),
    "chunked in quotes": post('Transfer-Encoding: "chunked"', LENGTH, body="0\r\n\r\n" + HIDDEN),
    "chunked after a comma": post("Transfer-Encoding: ,chunked", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "chunked with a parameter": post("Transfer-Encoding: chunked;q=1", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "a coding that is to be dropped": post(
        CHUNKED, "Connection: Transfer-Encoding", body=f"{len(HIDDEN):x}\r\n{HIDDEN}\r\n0\r\n\r\n"
    ),
    "a name with a blank before it": post(" Transfer-Encoding: chunked", LENGTH, body="0\r\n\r\n" + HIDDEN),
    "the same length twice": post(LENGTH, LENGTH),
    "a length of many digits": post(f"Content-Length: {1 << 64}"),
    "a length with a control": post(f"Content-Length: \x0b{len(HIDDEN)}"),
    "a chunk of many digits": post(CHUNKED, body=f"{(1 << 64) + 5:x}\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a chunk with a blank": post(CHUNKED, body="5 \r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a chunk without a size": post(CHUNKED, body="\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a long extension": post(CHUNKED, body=f"5;{'a' * 20_000}\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "a trailer that says a host": post(CHUNKED, body="0\r\nHost: other.test\r\n\r\n"),
    "a folded trailer": post(CHUNKED, body="0\r\nA: b\r\n c\r\n\r\n" + HIDDEN),
    "trailers that do not end": post(CHUNKED, body="0\r\n" + "A: b\r\n" * 20_000),
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
            answers = box.inside(lambda: all_tried(lambda: secured(box, API, PORT), 10))
            seen = origin.seen()[2:]
            context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())
            all_tried(
                lambda: context.wrap_socket(socket.create_connection(("127.0.0.1", PORT)), server_hostname=API), 1
            )
            direct = origin.seen()[2 + len(seen) :]
        asked = [each.split()[1].partition("%")[0] for each in seen]
        assert len(set(asked)) == len(asked) >= 4, "some of them are requests, and none is two"
        assert set(asked) <= answers.keys()
        refused = {path: status for path, status in answers.items() if path not in asked}
        assert set(refused.values()) <= REFUSED, refused
        assert any(" /smuggled" in each for each in direct), "as the server sees it without us"
        assert len(direct) > len(seen)
        assert scene.log == ""

    play(act)


def all_tried(connected: Callable[[], ssl.SSLSocket], patience_s: float) -> dict[str, str]:
    """Every attempt on a connection of its own, whole and in pieces: the status each got first, by its path."""
    with ThreadPoolExecutor(24) as several:
        made = {
            f"/asked-{number}-{step}": several.submit(
                tried, connected, data, f"/asked-{number}-{step}", step, patience_s
            )
            for number, data in enumerate(ATTEMPTS.values())
            for step in STEPS
        }
        return {path: found.result() for path, found in made.items()}


def tried(connected: Callable[[], ssl.SSLSocket], data: str, path: str, step: int, patience_s: float) -> str:
    raw = data.replace("/asked", path).encode("latin-1")
    said = b""
    with connected() as sock:
        sock.settimeout(patience_s)
        try:
            for at in range(0, len(raw), step):
                sock.sendall(raw[at : at + step])
        except OSError:
            pass  # it was refused before it was said
        try:
            while piece := sock.recv(65536):
                said += piece
                sock.settimeout(0.3)  # whether there is another answer; what the server saw is what counts
        except OSError:
            pass
    return said[9:12].decode("latin-1")


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

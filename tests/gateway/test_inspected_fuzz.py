"""Whatever clients and servers say, inside TLS and outside, the gateway lives, stays small and keeps its secrets."""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.gateway.certificates import Leaves, make_authority
from paddock.gateway.tls import Tls
from paddock.policy import Host
from tests.gateway.test_inspected import CLOSE
from tests.gateway.test_inspected_streams import resident
from tests.support import hostile
from tests.support.inspecting import API, OTHER, VALUE, Roots, ask, document, get, inspected_box, secret, secured
from tests.support.installation import until
from tests.support.origins_plain import web
from tests.support.properties import EXAMPLES, bounded, patient
from tests.support.scene import BoxScene, Scene, client_hello, connect, play

SESSIONS, SECONDS = 2 * EXAMPLES, max(15.0, EXAMPLES / 20)
HELLO = client_hello(API)


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> Leaves:
    return Leaves(make_authority("fuzz"), os.fspath(tmp_path_factory.mktemp("leaves")), clock=lambda: 0.0)


def fed(leaves: Leaves, pieces: list[bytes]) -> str:
    """How it ends, and with how much of an answer."""
    tls = Tls(leaves.context(Host(API)))
    size = 0
    try:
        for piece in pieces:
            said, reply = tls.feed(piece)
            assert not said, "nothing is said before both have shaken hands"
            size += len(reply)
    except ssl.SSLError:
        return "refused"
    return f"waits {bool(size)}"


@bounded
@given(st.binary(max_size=60), st.integers(0, len(HELLO)), st.integers(0, 9), st.integers(1, 50))
@example(b"", len(HELLO), 0, 1)
@example(b"\x16\x03\x01\xff\xff", 0, 0, 1)
@example(b"\x80\x2e\x01\x03\x01", 0, 0, 1)
@example(b"\x15\x03\x03\x00\x02\x02\x28", len(HELLO), 0, 3)
def test_any_bytes_of_tls_are_refused_or_wait_in_any_chunking(
    leaves: Leaves, noise: bytes, at: int, skip: int, step: int
) -> None:
    data = HELLO[:at] + noise + HELLO[at + skip :]
    whole = fed(leaves, [data])
    assert fed(leaves, [data[start : start + step] for start in range(0, len(data), step)]) == whole


def session(box: BoxScene, number: int) -> str:
    """One hostile client; what it hears inside TLS."""
    dice = random.Random(number)
    name, port = dice.choice(((API, 443), (API, 443), (API, 443), (OTHER, 443), (API, 80)))
    kind = dice.choice(("noise", "records", "spoiled", "talk", "talk", "talk")) if port == 443 else "noise"
    try:
        with connect(name, port) as sock:
            sock.settimeout(5)
            match kind:
                case "noise":
                    hostile.send_pieces(dice, sock.sendall, hostile.stream(dice, hostile.REQUESTS))
                case "records":
                    hostile.send_pieces(dice, sock.sendall, hostile.records(dice, HELLO))
                case "spoiled":
                    context = ssl.create_default_context(cadata=box.authority.certificate_pem.decode())
                    hostile.SpoiledWire(sock, context, dice, name).talk(hostile.stream(dice, hostile.REQUESTS))
                case _:
                    return talked(box, dice, name)
            return hostile.heard(sock).decode("latin-1")
    except (OSError, AssertionError):
        return ""


def talked(box: BoxScene, dice: random.Random, name: str) -> str:
    with secured(box, name) as sock:
        try:
            hostile.send_pieces(dice, sock.sendall, hostile.stream(dice, hostile.REQUESTS))
        except OSError:
            pass  # it was refused, and the answer is there
        return hostile.heard(sock).decode("latin-1") if dice.random() < 0.9 else ""


def attack(box: BoxScene) -> tuple[int, list[str]]:
    """(sessions, those in which a secret was heard)"""
    deadline = time.monotonic() + SECONDS

    def once(number: int) -> str | None:
        return session(box, number) if time.monotonic() < deadline else None

    with ThreadPoolExecutor(24) as several:
        said = [each for each in several.map(once, range(SESSIONS)) if each is not None]
    answered = sum(each.startswith("HTTP/1.") for each in said)
    return answered, [each for each in said if VALUE in each]


@pytest.mark.box
@patient
def test_hostile_clients_and_servers_neither_end_the_gateway_nor_learn_a_secret_nor_make_it_grow() -> None:
    def act(scene: Scene) -> None:
        seen: list[bytes] = []
        elsewhere: list[bytes] = []
        roots = Roots(scene)
        contexts = {API: roots.context(API), OTHER: roots.context(OTHER)}
        scene.names(API)
        scene.names(OTHER, address="127.0.0.2")
        scene.origin(443, hostile.server(contexts[API], seen, knows=True))
        scene.origin(443, hostile.server(contexts[OTHER], elsewhere, knows=False), "127.0.0.2")
        scene.origin(80, lambda sock: elsewhere.append(hostile.heard(sock)))
        roots.serve(web, "sane.test", 8443)
        box = inspected_box(scene, document(secret(), meter=[OTHER, "sane.test:8443"]), API, OTHER, "sane.test")
        sane = lambda: ask(box, get("/", CLOSE, host="sane.test:8443"), "sane.test", 8443)  # noqa: E731
        assert "200 OK" in box.inside(sane)
        box.inside(lambda: [session(box, number) for number in range(20)])
        before, files = resident(scene.gateway.pid), open_files(scene.gateway.pid)
        answered, leaks = box.inside(lambda: attack(box))
        assert leaks == []
        assert answered > SESSIONS // 10, "many are understood well enough for an answer"
        assert any(VALUE.encode() in each for each in seen), "its own host hears the secret"
        assert len(elsewhere) > 10
        assert not any(VALUE.encode() in each for each in elsewhere)
        assert scene.run(scene.gateway.hello()).boxes == (box.name,)
        assert scene.log == "", scene.log
        assert VALUE not in json.dumps(box.records())
        until(lambda: scene.run(scene.gateway.stats()).boxes[0].flows == 0, "all connections have ended", 20)
        assert "200 OK" in box.inside(sane)
        assert open_files(scene.gateway.pid) <= files + 8
        assert resident(scene.gateway.pid) - before < 32 << 20

    play(act)


def open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return 0  # who is not root may not look

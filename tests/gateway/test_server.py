"""The control socket: each operation does what it says, and a message that is none costs its sender only."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import time
from typing import Any

import pytest

from paddock import fs, proc
from paddock._version import VERSION
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.gateway import control
from paddock.gateway.client import Gateway
from paddock.gateway.control import BoxNet
from paddock.limits import GATEWAY_ALONE_S, REFUSAL_ADDRESS
from paddock.policy import Default
from tests.support.installation import until
from tests.support.origins_plain import web
from tests.support.scene import BoxScene, Scene, connect, lookup, play, policy, talk

pytestmark = pytest.mark.box


def raw(scene: Scene) -> socket.socket:
    sock = fs.connect_unix(str(scene.directory), "gateway", kind=socket.SOCK_SEQPACKET)
    sock.settimeout(5)
    return sock


def ask(sock: socket.socket, body: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
    control.send(sock, {"n": 7, **body}, fds or [])
    reply = json.loads(sock.recv(1 << 17))
    assert reply.pop("n") == 7
    return dict(reply)


def test_hello_says_who_it_is_and_whom_it_serves() -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy())
        hello = scene.run(scene.gateway.hello())
        assert (hello.version, hello.boxes) == (VERSION, (box.name,))

    play(act)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"op": "nothing"},
        {"op": 5},
        {"op": ["hello"]},
        {"op": "box"},
        {"op": "box", "box": {"id": "x"}},
        {"op": "box", "box": {"id": "x", "name": "x", "more": 1}},
        {"op": "host"},
        {"op": "policy", "id": "nobody"},
        {"op": "policy"},
        {"op": "attended", "id": "nobody"},
        {"op": "secrets", "id": "nobody"},
        {"op": "secrets"},
        {"op": "roots"},
        {"op": "answer", "ask": "x", "decision": "perhaps"},
        {"op": "answer", "ask": "x", "decision": "once"},
    ],
)
def test_what_cannot_be_done_is_an_error_and_the_next_request_is_served(body: dict[str, Any]) -> None:
    def act(scene: Scene) -> None:
        with raw(scene) as sock:
            assert "error" in ask(sock, body, [0, 1, 2])
            assert ask(sock, {"op": "hello"})["ok"] is True
        assert scene.log == "", "nothing was unexpected"

    play(act)


def test_a_box_without_its_descriptors_is_refused_and_none_is_kept() -> None:
    def act(scene: Scene) -> None:
        with raw(scene) as sock:
            box = {"id": "x", "name": "x", "attended": False, "publish": [80]}
            for count in (0, 1, 5, 6, 7, 9):
                assert "error" in ask(sock, {"op": "box", "box": box}, [0] * count)
            ours, theirs = socket.socketpair()
            with theirs:
                assert "error" in ask(sock, {"op": "box", "box": box}, [ours.fileno()] * 3)
                ours.close()
                theirs.settimeout(5)
                assert theirs.recv(1) == b"", "the gateway has let go of it"
            assert ask(sock, {"op": "hello"})["boxes"] == []

    play(act)


@pytest.mark.parametrize("data", [b"x", b"[]", b"{" * 100, b"\xff"])
def test_who_sends_what_is_no_message_is_hung_up_on_and_others_are_not(data: bytes) -> None:
    def act(scene: Scene) -> None:
        with raw(scene) as sock:
            sock.send(data)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(100) == b""
        assert scene.run(scene.gateway.hello()).boxes == ()

    play(act)


def test_one_daemon_more_than_there_can_be_is_turned_away() -> None:
    def act(scene: Scene) -> None:
        socks = [raw(scene) for _ in range(20)]
        served = 0
        for sock in socks:
            with contextlib.suppress(OSError, ValueError):
                served += ask(sock, {"op": "hello"})["ok"]
        assert 2 <= served < 20
        for sock in socks:
            sock.close()
        until(lambda: not scene.gateway.ended and scene.run(scene.gateway.hello()), "and others are served again")

    play(act)


def test_connections_outlive_the_daemon_that_opened_them() -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, web)
        scene.names("one.test")
        box = scene.box(policy("one.test"))
        ready, told = os.pipe()
        go, going = os.pipe()

        def inside() -> str:
            sock = connect("one.test", 80)
            os.write(told, b"x")
            os.read(go, 1)
            return talk(sock, b"GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")

        waiting = box.begin(inside)
        os.read(ready, 1)
        pid = scene.gateway.pid
        scene.gateway.close()
        scene.gateway = scene.run(Gateway.connect(str(scene.directory), "gateway"))
        assert scene.gateway.pid == pid
        assert scene.run(scene.gateway.hello()).boxes == (box.name,)
        os.write(going, b"x")
        assert "200 OK" in waiting()

    play(act)


def test_a_box_that_is_added_again_has_its_new_policy_and_its_network() -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy())
        assert box.inside(lambda: lookup("one.test")) == REFUSAL_ADDRESS
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            box.add(ours.fileno(), policy("one.test"))
        assert scene.run(scene.gateway.hello()).boxes == (box.name,)
        assert not scene.run(scene.gateway.stats()).boxes[0].sealed, "its sockets have not come by the new door"

    play(act)


def test_the_hosts_addresses_change_what_is_open() -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, web)
        scene.names("one.test")
        box = scene.box(policy("one.test", default=Default.DENY))
        request = b"GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n"
        assert "200 OK" in box.inside(lambda: talk(connect("one.test", 80), request))
        scene.hosts["one.test"] = ("9.9.9.9",)
        scene.know(addresses=("9.9.9.9",))
        said = box.inside(lambda: talk(connect("one.test", 80), request))
        assert "host itself" in said
        assert [r["reason"] for r in box.records() if r["event"] == "policy"] == ["other addresses of the host"]

    play(act)


def test_boxes_with_one_policy_share_its_rules() -> None:
    from paddock.gateway.server import Server

    documents = [b'{"layers":[],"on_deny":"deny"}'] * 2 + [b'{"layers":[],"on_deny":"ask"}']
    server = Server.__new__(Server)
    server._rules = {}

    class Here:
        own_addresses: frozenset[object] = frozenset()

    server._world = Here()  # type: ignore[assignment]
    first, second, third = (server._judged_by(document) for document in documents)
    assert first is second
    assert third is not first
    with pytest.raises(UserError):
        server._judged_by(b"{")
    for number in range(200):
        server._judged_by(json.dumps({"layers": [{"name": f"n{number}"}]}).encode())
    assert len(server._rules) < 100


def test_an_unknown_box_is_told_from_a_gateway_that_is_gone() -> None:
    def act(scene: Scene) -> None:
        with pytest.raises(Unavailable) as unknown:
            scene.run(scene.gateway.set_policy("nobody", policy()))
        assert unknown.value.code == "no-box"
        scene.run(scene.gateway.end())
        with pytest.raises(PaddockError) as gone:
            scene.run(scene.gateway.hello())
        assert gone.value.code == "gateway-died"
        scene.start_gateway()
        assert scene.run(scene.gateway.hello()).boxes == ()

    play(act)


def test_a_gateway_with_neither_daemon_nor_box_ends() -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy())
        pid = scene.gateway.pid
        scene.gateway.close()
        time.sleep(GATEWAY_ALONE_S + 0.5)
        assert proc.identity(pid) is not None, "the box has need of it"
        box.close()
        until(lambda: proc.identity(pid) is None, "nobody has")
        scene.start_gateway()

    play(act)


def test_a_gateway_without_descriptors_says_so_and_serves_on() -> None:
    def act(scene: Scene) -> None:
        with raw(scene) as sock:
            pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(30)]
            fds = [os.open("/dev/null", os.O_RDWR | os.O_APPEND) for _ in range(3)]
            resource.prlimit(scene.gateway.pid, resource.RLIMIT_NOFILE, (40, 40))
            document = control.document("policy", b'{"layers":[],"on_deny":"deny"}')
            empty = control.document("authority", b"")
            errors = []
            for number, (ours, _) in enumerate(pairs):
                box = {"id": f"{number}", "name": "x", "attended": False, "publish": []}
                passed = [ours.fileno(), document, *fds, empty, empty]
                errors.append(ask(sock, {"op": "box", "box": box}, passed).get("error"))
            found = [error for error in errors if error]
            assert found
            assert {error["code"] for error in found} == {"os"}
            assert ask(sock, {"op": "hello"})["ok"] is True

    play(act)


def test_a_thousand_idle_boxes_are_small() -> None:
    def act(scene: Scene) -> None:
        def memory() -> int:
            with open(f"/proc/{scene.gateway.pid}/statm") as file:
                return int(file.read().split()[1]) * 4096

        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        holder = BoxScene(scene, "first", policy("one.test"))
        scene.boxes.append(holder)
        before = memory()
        fds = [os.open("/dev/null", os.O_RDWR | os.O_APPEND) for _ in range(3)]
        doors = []
        for number in range(300):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            doors.append(theirs)
            with ours:
                scene.run(
                    scene.gateway.add(
                        BoxNet(id=f"b{number}", name=f"b{number}"),
                        door=ours.fileno(),
                        policy=policy("one.test", "two.test:443", "*.three.test"),
                        audit=(fds[0], fds[1]),
                        denials=fds[2],
                        authority=holder.authority.to_pem(),
                    )
                )
        assert (memory() - before) / 300 * 1000 < 25 * 1024 * 1024
        for sock in doors:
            sock.close()

    play(act)


def test_what_a_metered_box_spent_is_told_when_asked_and_survives_another_document() -> None:
    def act(scene: Scene) -> None:
        line = {"provider": "openai", "model": "gpt-5", "requests": 2}
        spending = {"budget": {"requests": 3}, "lines": [line]}
        plain, box = scene.box(policy()), scene.box(policy())
        document = json.dumps({"meter": ["api.openai.com"], "spending": spending}).encode()
        scene.run(scene.gateway.set_secrets(box.name, document))
        assert scene.run(scene.gateway.usage(plain.name)) is None
        other = json.dumps({"meter": ["api.openai.com"], "spending": {"budget": {"requests": 9}}}).encode()
        for each in (document, other):
            scene.run(scene.gateway.set_secrets(box.name, each))
            usage = scene.run(scene.gateway.usage(box.name))
            assert usage is not None
            assert (usage.id, usage.lines[0].requests, usage.over) == (box.name, 2, "")
        with pytest.raises(PaddockError):
            scene.run(scene.gateway.set_secrets(box.name, b'{"spending": {"budget": {"requests": -1}}}'))

    play(act)

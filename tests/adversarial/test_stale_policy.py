"""No connection goes by a policy that is gone: neither one that waits, nor one that is being made, nor one held."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.policy import OnDeny
from tests.support.installation import until
from tests.support.scene import LOOPBACK, Scene, client_hello, play, policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.policy import Policy

pytestmark = pytest.mark.box

PROXY = (limits.GATEWAY_ADDRESS, limits.PROXY_PORT)
REQUEST = b"GET /secret HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n"


class Listening:
    """An origin that keeps what it hears."""

    def __init__(self, scene: Scene, port: int) -> None:
        self.heard = b""
        self.ended = threading.Event()
        scene.origin(port, self._serve)

    def _serve(self, sock: socket.socket) -> None:
        try:
            while data := sock.recv(65536):
                self.heard += data
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        finally:
            self.ended.set()


def by_connect(port: int) -> socket.socket:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(b"CONNECT one.test:%d HTTP/1.1\r\nHost: one.test:%d\r\n\r\n" % (port, port))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert b" 200 " in head, head
    return sock


def by_socks(port: int) -> socket.socket:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(b"\x05\x01\x00")
    assert sock.recv(2) == b"\x05\x00"
    sock.sendall(b"\x05\x01\x00\x03\x08one.test" + port.to_bytes(2))
    assert sock.recv(10)[1] == 0
    return sock


def held(
    scene: Scene, reach: Callable[[int], socket.socket], port: int, then: Policy, first: Policy | None = None
) -> bytes:
    """What an origin hears of a box that was told yes, waits for another policy to be in force, and speaks then."""
    origin = Listening(scene, port)
    scene.names("one.test")
    box = scene.box(first or policy("one.test"), attended=True)
    told, go = os.pipe(), os.pipe()
    data = REQUEST if port == 80 else client_hello("one.test")

    def speak() -> str:
        with reach(port) as sock:
            os.write(told[1], b"x")
            os.read(go[0], 1)
            sock.settimeout(10)
            try:
                sock.sendall(data)
                return sock.recv(65536).decode("latin-1")
            except OSError as error:
                return str(error)

    said = box.begin(speak)
    if first is not None:
        until(lambda: scene.run(scene.gateway.pending()), "someone is asked")
        (ask,) = scene.run(scene.gateway.pending())
        scene.run(scene.gateway.answer(ask.ask, "once"))
    assert os.read(told[0], 1) == b"x"
    scene.run(scene.gateway.set_policy(box.name, then))
    os.write(go[1], b"x")
    said()
    origin.ended.wait(10)
    return origin.heard


@pytest.mark.parametrize("port", [80, 443])
@pytest.mark.parametrize("reach", [by_connect, by_socks])
@pytest.mark.parametrize(
    "then", [policy(), policy("one.test", deny=["one.test:80", "one.test:443"]), policy("one.test", deny=[LOOPBACK])]
)
def test_who_was_told_yes_and_waited_is_judged_by_the_policy_of_now(
    reach: Callable[[int], socket.socket], port: int, then: Policy
) -> None:
    def act(scene: Scene) -> None:
        assert held(scene, reach, port, then) == b""

    def oracle(scene: Scene) -> None:
        assert held(scene, reach, port, policy("one.test", "two.test")) != b""

    play(act)
    play(oracle)


def test_what_a_person_allowed_once_and_a_rule_denies_by_now_is_not_begun() -> None:
    asking = policy(on_deny=OnDeny.ASK)

    def act(scene: Scene) -> None:
        assert held(scene, by_connect, 80, policy(deny=["one.test"], on_deny=OnDeny.ASK), asking) == b""

    def oracle(scene: Scene) -> None:
        assert held(scene, by_connect, 80, policy("two.test", on_deny=OnDeny.ASK), asking) != b""

    play(act)
    play(oracle)

"""On ports of any protocol, HTTP and TLS are held to their host however their first bytes are dressed."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest

from paddock.gateway.certificates import Leaves, make_authority
from paddock.policy import Host
from tests.support.origins_plain import web
from tests.support.scene import Scene, client_hello, connect, play, policy, talk

pytestmark = pytest.mark.box

REQUEST = b"GET /p HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("before", [b"\r\n", b"\n", b"\r\n\r\n"])
def test_an_empty_line_before_a_request_does_not_hide_it(before: bytes) -> None:
    """RFC 9112 2.2: servers ignore it."""

    def act(scene: Scene) -> None:
        scene.origin(8080, web)
        scene.names("front.test")
        box = scene.box(policy("front.test"))
        plain = REQUEST % b"front.test:8080"
        assert "200 OK" in box.inside(lambda: talk(connect("front.test", 8080), plain))
        hidden = before + REQUEST % b"behind.test"
        assert "Host: behind.test" not in box.inside(lambda: talk(connect("front.test", 8080), hidden))
        bypass = scene.box(policy(bypass=["front.test"]))
        assert "Host: behind.test" in bypass.inside(
            lambda: talk(connect("front.test", 8080), hidden)
        )  # the server takes it

    play(act)


def say(port: int, data: bytes) -> str:
    """As talk, without waiting for more than an answer to just this."""
    sock = connect("front.test", port)
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    return talk(sock)


def in_records(hello: bytes, size: int) -> bytes:
    """A ClientHello cut into records, which every server puts together again."""
    body = hello[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(piece).to_bytes(2) + piece for piece in pieces)


@pytest.mark.parametrize("size", [512, 16, 1])
def test_a_client_hello_in_many_pieces_does_not_hide_its_name(size: int) -> None:
    context = Leaves(make_authority("origin"), "/tmp").context(Host("behind.test"))

    def shake(sock: socket.socket) -> None:
        """Answers with the first bytes of a handshake, if it came that far."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while not (answer := outgoing.read()):
            data = sock.recv(65536)
            if not data:
                return
            incoming.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
        sock.sendall(b"shaken" + answer[:1])

    def act(scene: Scene) -> None:
        scene.origin(8443, shake)
        scene.names("front.test")
        box, bypass = scene.box(policy("front.test")), scene.box(policy(bypass=["front.test"]))
        right, wrong = (in_records(client_hello(name), size) for name in ("front.test", "behind.test"))
        assert "shaken" not in box.inside(lambda: say(8443, wrong))
        assert "shaken" in bypass.inside(lambda: say(8443, wrong))  # the server takes it
        if size > 16:
            assert "shaken" in box.inside(lambda: say(8443, right))

    play(act)

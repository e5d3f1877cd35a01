"""A secret goes to its host by its scheme and nowhere else: not after a redirect, not in the clear."""

from __future__ import annotations

import functools
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.gateway.test_inspected import CLOSE, KEY, requests
from tests.support.inspecting import API, OTHER, PLACEHOLDER, VALUE, Roots, ask, document, get, inspected_box, secret
from tests.support.origins_plain import web
from tests.support.scene import Scene, connect, play, talk

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.box

PORT = 8443


def noting(seen: list[str], answer: Callable[[str], str]) -> Callable[[socket.socket], None]:
    """An origin that keeps what it hears."""

    def serve(sock: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n") and (data := sock.recv(65536)):
            head += data
        seen.append(head.decode())
        sock.sendall(f"HTTP/1.1 {answer(head.decode())}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    return serve


def test_a_redirect_takes_no_secret_to_another_host() -> None:  # CRED-05 PRX-17
    def act(scene: Scene) -> None:
        asked: list[str] = []
        elsewhere: list[str] = []
        away = f"https://{OTHER}:{PORT}/?key={VALUE}"
        roots = Roots(scene)
        roots.serve(
            noting(asked, lambda _: f"302 {VALUE}\r\nLocation: {away}\r\nRefresh: 0;{away}\r\nAlt-Svc: h3=':{PORT}'")
        )
        roots.serve(noting(elsewhere, lambda _: "200 OK"), OTHER, PORT)
        scene.origin(80, noting(elsewhere, lambda _: "200 OK"))
        box = inspected_box(scene, document(secret(), meter=[f"{OTHER}:{PORT}"]))
        said = box.inside(lambda: ask(box, get("/", KEY, CLOSE)))
        assert VALUE in asked[0], "its own host has it"
        assert f"Location: https://{OTHER}:{PORT}/?key={PLACEHOLDER}\r\n" in said
        assert VALUE not in said
        assert "alt-svc" not in said.lower()
        host = f"{OTHER}:{PORT}"
        for data in (
            get(f"/?key={PLACEHOLDER}", CLOSE, host=host),  # as it was told to
            get("/", KEY, CLOSE, host=host),  # as curl takes headers along
            get(f"/?key={VALUE}", CLOSE, host=host),  # had it learned it
        ):
            followed = box.inside(functools.partial(ask, box, data, OTHER, PORT))
            assert followed.startswith("HTTP/1.1 403 ")
            assert "nowhere else" in followed
            plain = box.inside(lambda data=data: talk(connect(OTHER, 80), data.replace(host.encode(), OTHER.encode())))  # type: ignore[misc]
            assert plain.startswith("HTTP/1.1 403 ")
        assert elsewhere == []
        again = box.inside(lambda: ask(box, get("/", CLOSE, host=host), OTHER, PORT))
        assert again.startswith("HTTP/1.1 200 "), "without it the other host is reached"
        assert len(elsewhere) == 1
        assert [each[3] for each in requests(box)] == [302, 403, 403, 403, 200]

    play(act)


def test_over_plain_http_a_secret_goes_where_that_was_named_and_only_there() -> None:
    def act(scene: Scene) -> None:
        seen: list[str] = []
        scene.names(API, OTHER)
        scene.origin(80, noting(seen, lambda _: "200 OK"))
        unnamed = inspected_box(scene, document(secret()))
        named = inspected_box(scene, document(secret(scheme="http", port=80)))
        request = get("/", KEY, CLOSE)
        assert unnamed.inside(lambda: talk(connect(API, 80), request)).startswith("HTTP/1.1 403 ")
        assert seen == []
        assert named.inside(lambda: talk(connect(API, 80), request)).startswith("HTTP/1.1 200 ")
        assert f"X-Api-Key: {VALUE}" in seen.pop()
        for data in (get("/", KEY, CLOSE, host=OTHER), get("/", f"X: {VALUE}", CLOSE, host=OTHER)):
            said = named.inside(lambda data=data: talk(connect(OTHER, 80), data))  # type: ignore[misc]
            assert said.startswith("HTTP/1.1 403 ")
        assert seen == []
        mixed = get("/", host=OTHER) + request  # another host on the same connection is judged by itself
        said = named.inside(lambda: talk(connect(OTHER, 80), mixed))
        assert not any(VALUE in each and OTHER in each for each in seen), said

    play(act)


def test_a_placeholder_of_another_box_is_sent_as_the_word_that_it_is() -> None:  # CRED-12
    def act(scene: Scene) -> None:
        seen: list[str] = []
        theirs = PLACEHOLDER.replace("0000", "7777")
        Roots(scene).serve(noting(seen, lambda _: "200 OK"))
        mine = inspected_box(scene, document(secret()))
        other = inspected_box(scene, document(secret(placeholder=theirs, value=VALUE[::-1])))
        for header in (f"X-Api-Key: {theirs}", f"Authorization: Bearer {theirs}"):
            mine.inside(lambda header=header: ask(mine, get("/", header, CLOSE)))  # type: ignore[misc]
            assert header in seen.pop()
        other.inside(lambda: ask(other, get("/", f"X-Api-Key: {theirs}", CLOSE)))
        assert f"X-Api-Key: {VALUE[::-1]}" in seen.pop(), "where it is at home it is worth something"

    play(act)


def test_no_session_of_before_is_taken_up_again_so_a_server_is_verified_each_time() -> None:  # TLS-10
    def act(scene: Scene) -> None:
        reused: list[bool | None] = []
        roots = Roots(scene)
        context = roots.context()
        context.options &= ~ssl.OP_NO_TICKET
        context.num_tickets = 2

        def origin(sock: socket.socket) -> None:
            with context.wrap_socket(sock, server_side=True) as tls:
                reused.append(tls.session_reused)
                web(tls)

        scene.origin(443, origin)
        scene.names(API)
        box = inspected_box(scene, document(secret()))
        for _ in range(3):
            assert "200 OK" in box.inside(lambda: ask(box, get("/", KEY, CLOSE)))
        assert reused == [False] * 3

        client = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())
        session: ssl.SSLSession | None = None
        for _ in range(2):
            plain = socket.create_connection(("127.0.0.1", 443), 10)
            with client.wrap_socket(plain, server_hostname=API, session=session) as tls:
                tls.sendall(get("/", CLOSE))
                assert tls.recv(65536)
                session = tls.session
        assert reused[3:] == [False, True], "a client that wants to may"

    play(act)

"""Inspected connections end to end: a real gateway in its jail, sealed boxes, real TLS on both sides."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import UserError
from paddock.gateway import certificates
from tests.gateway.test_intake import PROXY
from tests.support.inspecting import (
    API,
    OTHER,
    PLACEHOLDER,
    VALUE,
    Roots,
    ask,
    document,
    drain,
    get,
    inspected_box,
    secret,
    secured,
    wrapped,
)
from tests.support.installation import until
from tests.support.origins_plain import over_tls, web
from tests.support.scene import BoxScene, Scene, client_hello, connect, lookup, play, policy, talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.client import Gateway

pytestmark = pytest.mark.box

CLOSE = "Connection: close"
ENDED = {"", "<ConnectionResetError>"}  # Python's TLS takes a reset for an end
KEY = f"X-Api-Key: {PLACEHOLDER}"
CONTENT = document(secret(headers=["x-api-key", "authorization"]))


def requests(box: BoxScene) -> list[tuple[Any, ...]]:
    """What is recorded of a box's requests."""
    keys = ("decision", "method", "path", "status", "secrets")
    return [tuple(r.get(key) for key in keys) for r in box.records() if r["event"] == "request"]


def by_connect(name: str, port: int) -> socket.socket:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert b" 200 " in head
    return sock


def by_socks(name: str, port: int) -> socket.socket:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(b"\x05\x01\x00")
    assert sock.recv(2) == b"\x05\x00"
    sock.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name.encode() + port.to_bytes(2, "big"))
    assert sock.recv(10)[1] == 0
    return sock


def test_the_placeholder_is_swapped_whichever_way_a_program_connects_and_nothing_else_is_looked_into() -> None:
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        seen: list[str] = []

        def origin(sock: socket.socket) -> None:
            seen.append(sock.recv(65536).decode())
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

        roots.serve(origin)
        roots.serve(web, OTHER, 444)
        box = inspected_box(scene, CONTENT)
        for way in (connect, by_connect, by_socks):

            def go(way: Callable[[str, int], socket.socket] = way) -> str:
                with wrapped(box, way(API, 443), API) as sock:
                    assert sock.selected_alpn_protocol() == "http/1.1"
                    sock.sendall(get("/x?y=1", KEY))
                    return drain(sock)

            assert box.inside(go).endswith("ok")
        assert [VALUE in each and PLACEHOLDER not in each for each in seen] == [True] * 3
        assert requests(box) == [("allow", "GET", "/x", 200, "api")] * 3

        def other() -> str:
            """Verified by the origin's own root: nobody stands in between."""
            context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())
            with context.wrap_socket(connect(OTHER, 444), server_hostname=OTHER) as sock:
                sock.sendall(get("/", KEY, CLOSE, host=OTHER))
                return drain(sock)

        assert PLACEHOLDER in box.inside(other), "worthless where nothing is swapped"
        assert len(requests(box)) == 3
        assert scene.log == ""

    play(act)


def test_a_connection_is_kept_and_each_request_on_it_is_judged_by_itself() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        box = inspected_box(scene, CONTENT)
        basic = base64.b64encode(f"u:{PLACEHOLDER}".encode()).decode()
        data = (
            get("/1", KEY) + get("/2") + get("/3", f"Authorization: Basic {basic}") + get("/4", host=OTHER) + get("/5")
        )
        said = box.inside(lambda: ask(box, data))
        assert said.count("200 OK") == 3
        assert said.count("421 Misdirected Request") == 1
        assert "/5" not in said
        assert base64.b64encode(f"u:{VALUE}".encode()).decode() in said
        assert requests(box) == [
            ("allow", "GET", "/1", 200, "api"),
            ("allow", "GET", "/2", 200, None),
            ("allow", "GET", "/3", 200, "api"),
            ("deny", "GET", "/4", 421, None),
        ]
        assert "came on a connection to api.test:443" in box.refusals()[-1]["reason"]

        def around() -> list[tuple[str, str]]:
            return [(r["event"], r["protocol"]) for r in box.records() if r["event"] in {"decision", "end"}]

        until(lambda: around() == [("decision", "https"), ("end", "https")], "and the connection around them")

    play(act)


def test_a_secret_goes_nowhere_but_to_its_host_and_a_missing_one_is_named() -> None:
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        roots.serve(web)
        roots.serve(web, OTHER, 8443)
        scene.origin(80, web)
        content = document(
            secret(), secret("gone", placeholder=PLACEHOLDER + "-gone", value="", missing=True), meter=[f"{OTHER}:8443"]
        )
        box = inspected_box(scene, content)
        assert VALUE not in box.inside(lambda: ask(box, get("/", KEY, CLOSE))), "and does not come back"
        for leak in (PLACEHOLDER, VALUE):
            data = get("/", f"X: {leak}", CLOSE, host=f"{OTHER}:8443")
            said = box.inside(functools.partial(ask, box, data, OTHER, 8443))
            assert said.startswith("HTTP/1.1 403 ")
            assert "it goes to https port 443 of api.test and nowhere else" in said
            data = get("/", f"X: {leak}", CLOSE)
            plain = box.inside(lambda data=data: talk(connect(API, 80), data))  # type: ignore[misc]
            assert plain.startswith("HTTP/1.1 403 ")
            assert "secret-misdirected" in plain
        assert "200 OK" in box.inside(lambda: ask(box, get("/", CLOSE, host=f"{OTHER}:8443"), OTHER, 8443))
        assert "200 OK" in box.inside(lambda: talk(connect(API, 80), get("/", CLOSE)))
        gone = box.inside(lambda: ask(box, get("/", KEY + "-gone", CLOSE)))
        assert gone.startswith("HTTP/1.1 424 ")
        assert "secret 'gone' has no value on the host\nrun outside the box: paddock secret set gone" in gone
        reasons = [r["reason"].partition(":")[0] for r in box.records() if r.get("decision") == "deny"]
        assert reasons == ["secret-misdirected"] * 4 + ["secret-missing"]
        everything = b"".join(path.read_bytes() for path in scene.directory.rglob("*") if path.is_file())
        assert VALUE.encode() not in everything, "neither a log nor a record has it"

    play(act)


def test_another_boxes_placeholder_is_worth_nothing_here() -> None:  # CRED-12
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        mine = inspected_box(scene, CONTENT)
        theirs = inspected_box(scene, document(secret(placeholder=PLACEHOLDER.replace("0000", "7777"))))
        request = get("/", "X-Api-Key: " + PLACEHOLDER.replace("0000", "7777"), CLOSE)
        assert PLACEHOLDER.replace("0000", "7777") in mine.inside(lambda: ask(mine, request))
        assert requests(mine)[0][-1] is None
        theirs.inside(lambda: ask(theirs, request))
        assert requests(theirs)[0][-1] == "api"

    play(act)


def weak(scene: Scene, roots: Roots) -> ssl.SSLContext:
    """A certificate of the right root for the right name, with a key of 1024 bits."""
    (scene.directory / "ca.pem").write_bytes(roots.authority.certificate_pem)
    (scene.directory / "ca.key").write_bytes(roots.authority.key_pem)
    subject = ["-subj", "/CN=api.test", "-addext", "subjectAltName=DNS:api.test", "-days", "9"]
    subject += ["-addext", "basicConstraints=critical,CA:FALSE"]
    signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "weak.key", "-out", "weak.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", *signer, *subject]
    subprocess.run(command, cwd=scene.directory, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.load_cert_chain(scene.directory / "weak.pem", scene.directory / "weak.key")
    return context


def expired(roots: Roots) -> ssl.SSLContext:
    days, certificates._LEAF_DAYS = certificates._LEAF_DAYS, -1
    try:
        return roots.fresh().context()
    finally:
        certificates._LEAF_DAYS = days


def test_a_server_is_verified_always_and_a_failed_check_is_named() -> None:  # TLS-06
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        box = inspected_box(scene, CONTENT)
        served: list[ssl.SSLContext] = []
        heard: list[str] = []

        def origin(sock: socket.socket) -> None:
            def note(inner: socket.socket) -> None:
                heard.append(inner.recv(65536).decode())
                inner.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

            over_tls(served[-1], note)(sock)

        scene.origin(443, origin)
        scene.names(API)
        for context, problem in (
            (expired(roots), "certificate has expired"),
            (roots.context(OTHER), "Hostname mismatch, certificate is not valid for 'api.test'"),
            (Roots(scene, told=False).context(), "unable to get local issuer certificate"),
            (weak(scene, roots), "EE certificate key too weak"),
        ):
            served.append(context)
            said = box.inside(lambda: ask(box, get("/", KEY)))
            assert said.startswith("HTTP/1.1 502 Bad Gateway")
            assert f"the certificate of api.test:443 was not accepted: {problem}" in said
            assert heard == [], "it did not hear the request"
        served.append(roots.context())
        assert box.inside(lambda: ask(box, get("/", KEY))).startswith("HTTP/1.1 200 OK")
        assert VALUE in heard[0]
        assert [each[3] for each in requests(box)] == [None] * 4 + [200]

    play(act)


def test_without_roots_and_without_a_server_there_is_a_readable_answer() -> None:
    def act(scene: Scene) -> None:
        unverified = Roots(scene, told=False)
        unverified.serve(web)
        box = inspected_box(scene, CONTENT)
        said = box.inside(lambda: ask(box, get("/")))
        assert "502 Bad Gateway" in said
        assert "no root certificates" in said
        with pytest.raises(UserError):
            scene.run(scene.gateway.set_roots(b"rubbish"))
        scene.run(scene.gateway.set_roots(b"# a comment\n" + unverified.authority.certificate_pem))
        assert "200 OK" in box.inside(lambda: ask(box, get("/", CLOSE)))

        scene.names("nobody.test", address="127.0.0.9")
        other = inspected_box(scene, document(secret(hosts=["nobody.test", "odd.test"])), "nobody.test", "odd.test:443")
        said = other.inside(lambda: ask(other, get("/", host="nobody.test"), "nobody.test"))
        assert "502 Bad Gateway" in said
        assert "cannot connect to nobody.test: Connection refused" in said
        scene.names("odd.test", address="192.168.7.7")
        said = other.inside(lambda: ask(other, get("/", host="odd.test"), "odd.test"))
        assert said.startswith("HTTP/1.1 403 Forbidden")
        assert "192.168.7.7" in said

        def hang_up(sock: socket.socket) -> None:
            sock.recv(100)

        scene.origin(443, hang_up, address="127.0.0.10")
        scene.names("nobody.test", address="127.0.0.10")
        said = other.inside(lambda: ask(other, get("/", host="nobody.test"), "nobody.test"))
        assert "nobody.test:443 ended the TLS handshake: " in said

    play(act)


def test_a_client_that_does_not_trust_the_box_or_speaks_no_http_1_fails_cleanly() -> None:  # TLS-09
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        box = inspected_box(scene, CONTENT)

        def pinned() -> str:
            try:
                ssl.create_default_context().wrap_socket(connect(API, 443), server_hostname=API)
            except ssl.SSLCertVerificationError as error:
                return str(error)
            return "no error"

        assert "unable to get local issuer" in box.inside(pinned)
        until(lambda: any("--bypass-host" in r.get("reason", "") for r in box.records()), "a hint in the records")

        def newer() -> str:
            with secured(box, alpn=("h2",)) as sock:
                sock.settimeout(10)
                sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                return drain(sock)

        assert "needs HTTP/1.1" in box.inside(newer)

        def other_name() -> str:
            context = ssl.create_default_context(cadata=box.authority.certificate_pem.decode())
            with context.wrap_socket(connect(API, 443), server_hostname=OTHER) as sock:
                sock.sendall(get("/", KEY, host=OTHER))
                return drain(sock)

        assert "TLS asks for other.test on a connection to api.test" in box.inside(other_name)
        assert "403" in box.inside(lambda: talk(connect(API, 443), get("/", KEY)))

    play(act)


def test_rules_about_requests_hold_on_every_port_and_in_the_clear() -> None:
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        for port in (443, 8443):
            roots.serve(web, port=port)
        for port in (80, 8080):
            scene.origin(port, web)
        box = inspected_box(scene, b"", requests=[f"allow GET {API}/repos/me/x/**"])
        for port in (443, 8443, 80, 8080):
            at = API if port in {80, 443} else f"{API}:{port}"

            def go(data: bytes, port: int = port) -> str:
                secure = port in {443, 8443}
                return ask(box, data, port=port) if secure else talk(connect(API, port), data)

            fine = get("/repos/me/x/issues?page=2", CLOSE, host=at)
            assert "200 OK" in box.inside(functools.partial(go, fine))
            for method, path in (("POST", "/repos/me/x"), ("GET", "/repos/you/x"), ("GET", "/repos/me/x/%2e%2e/y")):
                data = get(path, "Content-Length: 0", CLOSE, host=at, method=method)
                said = box.inside(functools.partial(go, data))
                assert said.startswith("HTTP/1.1 403 Forbidden"), (port, said)
        raw = box.inside(lambda: talk(connect(API, 8080), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        assert "200" not in raw, "HTTP/2 in the clear would pass unseen"
        denied = [each for each in requests(box) if each[0] == "deny"]
        assert denied[0] == ("deny", "POST", "/repos/me/x", 403, None)
        assert {r["reason"] for r in box.refusals()} >= {"request: no request rule of the box policy allows POST here"}

    play(act)


def test_a_bypass_does_not_go_round_secrets_and_rules() -> None:  # TLS-09
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        roots.serve(web)
        bound = inspected_box(scene, CONTENT, OTHER, bypass=[API])
        ruled = inspected_box(scene, b"", OTHER, bypass=[API], requests=[f"deny DELETE {API}"])
        for box in (bound, ruled):
            said = box.inside(functools.partial(ask, box, get("/", KEY)))
            assert said.startswith("HTTP/1.1 403 ")
            assert "a secret or a request rule of this box needs it" in said
        free = inspected_box(scene, document(), OTHER, bypass=[API])

        def direct() -> str:
            context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())
            with context.wrap_socket(connect(API, 443), server_hostname=API) as sock:
                sock.sendall(get("/", CLOSE))
                return drain(sock)

        assert "200 OK" in free.inside(direct), "without them it is as it ever was"

    play(act)


def test_secrets_are_exchanged_while_a_connection_is_open_and_rules_end_what_they_cannot_see() -> None:  # CRED-10
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        roots.serve(web)
        box = inspected_box(scene, document(secret()))
        (turn, told), (go, gone), (ready, tell) = os.pipe(), os.pipe(), os.pipe()

        def talker() -> list[str]:
            said = []
            with secured(box) as sock:
                for _ in range(2):
                    sock.sendall(get("/", f"X-Other: {PLACEHOLDER}"))
                    said.append(sock.recv(65536).decode())
                    os.write(told, b"x")
                    os.read(go, 1)
            return said

        wait = box.begin(talker)
        os.read(turn, 1)
        gateway: Gateway = scene.gateway
        assert (
            scene.run(gateway.set_secrets(box.name, document(secret(value="rotated-rotated-rotated-rotated-rotate"))))
            == 0
        )
        os.write(gone, b"xx")
        first, second = wait()
        assert PLACEHOLDER in first, "the origin echoes it, and the answer is masked"
        assert "rotated" not in second
        assert [each[-1] for each in requests(box)] == ["api", "api"]
        old = box.inside(lambda: ask(box, get("/", f"X: {VALUE}")))
        assert "no longer valid" in old

        opaque = inspected_box(scene, b"")
        context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())

        def idle() -> str:
            with context.wrap_socket(connect(API, 443), server_hostname=API) as sock:
                os.write(tell, b"x")
                sock.settimeout(10)
                return drain(sock)

        wait = opaque.begin(idle)
        os.read(ready, 1)
        assert scene.run(gateway.set_secrets(opaque.name, CONTENT)) == 1
        assert wait() in ENDED
        with pytest.raises(UserError) as error:
            scene.run(gateway.set_secrets(opaque.name, b'{"secrets": [{"value": "' + VALUE.encode() + b'"}]}'))
        assert VALUE not in str(error.value)

    play(act)


def test_a_connection_that_waited_while_the_rules_came_does_not_pass_unseen() -> None:
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        roots.serve(web)
        roots.serve(web, OTHER, 444)
        box = inspected_box(scene, b"")
        (turn, told), (go, gone) = os.pipe(), os.pipe()
        context = ssl.create_default_context(cadata=roots.authority.certificate_pem.decode())

        def late(name: str, port: int) -> str:
            with connect(name, port) as sock:
                os.write(told, b"x")
                os.read(go, 1)
                try:
                    with context.wrap_socket(sock, server_hostname=name) as inner:
                        inner.sendall(get("/", CLOSE, host=name if port == 443 else f"{name}:{port}"))
                        return drain(inner)
                except OSError as error:
                    return f"<{type(error).__name__}>"

        waits = [box.begin(functools.partial(late, *where)) for where in ((API, 443), (API, 443), (OTHER, 444))]
        for _ in waits:
            os.read(turn, 1)
        until(lambda: scene.run(scene.gateway.stats()).boxes[0].connections == 3, "the gateway has all three")
        rules = policy(API, OTHER, requests=[f"deny * {API}"])
        assert scene.run(scene.gateway.set_policy(box.name, rules)) == 0
        os.write(gone, b"xxx")
        first, second, other = (wait() for wait in waits)
        assert "200 OK" not in first + second
        assert "200 OK" in other, "which no rule speaks of"

    play(act)


def test_a_policy_that_closes_a_host_ends_its_inspected_connections() -> None:
    def act(scene: Scene) -> None:
        Roots(scene).serve(web)
        box = inspected_box(scene, CONTENT)
        turn, told = os.pipe()

        def idle() -> str:
            with secured(box) as sock:
                sock.settimeout(10)
                sock.sendall(get("/"))
                sock.recv(65536)
                os.write(told, b"x")
                return drain(sock)

        wait = box.begin(idle)
        os.read(turn, 1)
        assert scene.run(scene.gateway.set_policy(box.name, policy(OTHER))) == 1
        assert wait() in ENDED

    play(act)


def test_rubbish_from_clients_and_servers_neither_ends_the_gateway_nor_leaks() -> None:
    def act(scene: Scene) -> None:
        roots = Roots(scene)
        answers = [
            b"",
            b"\0" * 70_000,
            b"HTTP/1.1 200 OK\r\n" * 5000,
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        ]
        turn = iter(answers * 100)

        def origin(sock: socket.socket) -> None:
            sock.recv(65536)
            sock.sendall(next(turn))

        roots.serve(origin)
        box = inspected_box(scene, CONTENT)

        def attack() -> list[str]:
            said = []
            for number, _ in enumerate(answers):
                said.append(ask(box, get(f"/{number}", KEY)))
            for data in (b"", b"\0" * 100_000, b"GET", get("/", "X: " + "y" * 100_000), get("/", *["A: b"] * 200)):
                with contextlib.suppress(OSError):
                    said.append(ask(box, data + b"\r\n\r\n"))
            for data in (b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff", os.urandom(5000)):
                with contextlib.suppress(OSError):
                    said.append(talk(connect(API, 443), data))
            hello = client_hello(API)
            for data in (
                b"\x16",
                hello + b"\x17\x03\x03\x00\x10" + b"x" * 16,
                *(hello[: 13 * n] for n in range(1, 20)),
            ):
                with socket.create_connection((str(lookup(API)), 443), 10) as sock:
                    sock.sendall(data)  # a handshake that stops in the middle
            return said

        said = box.inside(attack)
        assert not any(VALUE in each for each in said)
        assert all(each.startswith("HTTP/1.1 502") for each in said[:1])
        assert scene.run(scene.gateway.hello()).boxes == (box.name,)
        assert scene.log == "", scene.log
        assert VALUE not in json.dumps(box.records())

    play(act)


def test_rules_about_the_hosts_own_port_hold_by_either_of_its_names() -> None:
    def act(scene: Scene) -> None:
        scene.origin(8000, web)
        rules = ["allow GET localhost:8000"]
        names = ("localhost", "host.docker.internal")
        free = scene.box(policy("localhost:8000"), ports=[8000])
        held = scene.box(policy("localhost:8000", requests=rules), ports=[8000])
        for name in names:
            for method, box, said in (("POST", free, "200 OK"), ("GET", held, "200 OK"), ("POST", held, "403 Forb")):
                data = get("/", "Content-Length: 0", CLOSE, host=f"{name}:8000", method=method)

                def go(name: str = name, data: bytes = data) -> str:
                    at = "127.0.0.1" if name == "localhost" else str(lookup(name))
                    return talk(socket.create_connection((at, 8000), 10), data)

                assert said in box.inside(go), (name, method)

    play(act)

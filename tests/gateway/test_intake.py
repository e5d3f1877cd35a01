"""Where a connection from a box goes, whichever way its destination is named: a real gateway, real sealed networks."""

from __future__ import annotations

import json
import socket
import ssl
import struct

import pytest

from paddock import limits
from paddock.gateway.certificates import Leaves, make_authority
from paddock.policy import Default, Host
from tests.support.origins_plain import banner, echo, over_tls, web
from tests.support.scene import BoxScene, Scene, connect, lookup, play, policy, talk

pytestmark = pytest.mark.box

PROXY = (limits.GATEWAY_ADDRESS, limits.PROXY_PORT)
REQUEST = "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"


def get(host: str) -> bytes:
    return REQUEST.format(host).encode()


def attempt(address: tuple[str, int], data: bytes = b"") -> str:
    """What came of it, a refused connection included."""
    try:
        return talk(socket.create_connection(address, 10), data)
    except ConnectionResetError:
        return "<reset>"


def by_name(name: str, port: int, data: bytes = b"") -> str:
    try:
        return talk(connect(name, port), data)
    except ConnectionResetError:
        return "<reset>"


def by_connect(name: str, port: int, data: bytes = b"") -> str:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = sock.recv(1)
        if not piece:
            return head.decode()
        head += piece
    if b" 200 " not in head:
        return head.decode() + talk(sock)
    return talk(sock, data)


def by_socks(name: str, port: int, data: bytes = b"") -> str:
    sock = socket.create_connection(PROXY, 10)
    sock.sendall(b"\x05\x01\x00")
    assert sock.recv(2) == b"\x05\x00"
    try:
        where = b"\x01" + socket.inet_aton(name)
    except OSError:
        where = b"\x03" + bytes([len(name)]) + name.encode()
    sock.sendall(b"\x05\x01\x00" + where + struct.pack(">H", port))
    reply = sock.recv(10)
    if reply[1]:
        return f"socks refused {reply[1]}"
    return talk(sock, data)


def by_absolute(name: str, port: int, _data: bytes = b"") -> str:
    at = name if port == 80 else f"{name}:{port}"
    return attempt(PROXY, f"GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n".encode())


WAYS = {"transparent": by_name, "CONNECT": by_connect, "SOCKS5": by_socks, "absolute-form": by_absolute}


@pytest.mark.parametrize("way", WAYS)
def test_an_allowed_host_is_reached_and_a_denied_one_is_not_by_every_way(way: str) -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, web)
        scene.origin(8080, web)
        scene.names("allowed.test", "denied.test")
        box = scene.box(policy("allowed.test:80"))
        go = WAYS[way]
        assert "Host: allowed.test" in box.inside(lambda: go("allowed.test", 80, get("allowed.test")))
        for name, port in (("denied.test", 80), ("allowed.test", 8080)):
            said = box.inside(lambda to=name, at=port: go(to, at, get(f"{to}:{at}")))  # type: ignore[misc]
            assert "200 OK" not in said
            assert "403" in said or said == "socks refused 2"
            records = [r for r in box.records() if (r.get("host"), r.get("port")) == (name, port)]
            assert [r["decision"] for r in records] == ["deny"]
            assert box.refusals()[-1]["host"] == name

    play(act)


@pytest.mark.parametrize("way", ["CONNECT", "SOCKS5", "absolute-form"])
@pytest.mark.parametrize("name", ["gateway.paddock", "198.18.0.1", "198.18.0.2", "198.19.7.7", "x.paddock"])
def test_the_proxy_leads_neither_to_itself_nor_to_addresses_of_the_box(way: str, name: str) -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy(default=Default.ALLOW))
        said = box.inside(lambda: WAYS[way](name, 3128, b"x"))
        assert "403" in said or said == "socks refused 2"

    play(act)


def test_the_seal_is_proved_under_every_policy_and_leaves_no_record() -> None:
    def act(scene: Scene) -> None:
        for rules in (policy(), policy(default=Default.ALLOW), policy("192.0.2.1", default=Default.OBSERVE)):
            box = scene.box(rules)
            assert box.inside(lambda: lookup("denied.paddock")) == limits.REFUSAL_ADDRESS
            assert box.inside(lambda: attempt(("192.0.2.1", 9))) == "<reset>"
            assert box.records() == []

    play(act)


def test_an_address_is_reached_by_a_rule_for_it_and_by_no_other() -> None:
    def act(scene: Scene) -> None:
        # Loopback is the box's own, so the host's is reached by another address.
        box = scene.box(policy(default=Default.ALLOW, deny=["1.2.3.4"]))
        assert "403" in box.inside(lambda: attempt(("1.2.3.4", 80), get("1.2.3.4")))
        for address in ("10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1"):
            said = box.inside(lambda to=address: attempt((to, 80), get(to)))  # type: ignore[misc]
            assert "only a rule for it opens" in said
        assert box.inside(lambda: attempt(("1.2.3.4", 5555))) == "<reset>"

    play(act)


def test_a_server_that_speaks_first_is_heard() -> None:
    def act(scene: Scene) -> None:
        scene.origin(22, banner)
        scene.names("allowed.test", "denied.test")
        box = scene.box(policy("allowed.test"))
        said = box.inside(lambda: by_name("allowed.test", 22, b"\x00\x01"))
        assert said == "hello from the server\nyou said \x00\x01"
        assert box.inside(lambda: by_name("denied.test", 22)) == "<reset>"
        assert "the name denied last was denied.test" in box.refusals()[-1]["reason"]

    play(act)


@pytest.mark.parametrize("port", [80, 8080])
def test_a_request_for_another_host_than_the_connections_is_refused(port: int) -> None:
    def act(scene: Scene) -> None:
        scene.origin(port, web)
        scene.names("allowed.test", "other.test")
        box = scene.box(policy("allowed.test", "other.test"))
        at = "" if port == 80 else f":{port}"
        assert "200 OK" in box.inside(lambda: by_name("allowed.test", port, get(f"allowed.test{at}")))
        said = box.inside(lambda: by_name("allowed.test", port, get(f"other.test{at}")))
        assert "403 Forbidden" in said
        assert "came on a connection to allowed.test" in said

    play(act)


def test_what_is_no_http_does_not_pass_on_port_80_and_what_is_no_tls_not_on_443() -> None:
    def act(scene: Scene) -> None:
        for port in (80, 443, 5000):
            scene.origin(port, echo)
        scene.names("allowed.test")
        box = scene.box(
            policy("allowed.test"),
        )
        for port in (80, 443):
            said = box.inside(lambda at=port: by_name("allowed.test", at, b"\x00\x01\x02\x03\r\n\r\n"))  # type: ignore[misc]
            assert "\x00\x01\x02\x03" not in said
        assert "403" in box.inside(lambda: by_name("allowed.test", 443, get("allowed.test")))

        def opaque() -> str:
            sock = connect("allowed.test", 5000)
            sock.sendall(b"\x00\x01")
            said = sock.recv(10)
            sock.close()
            return said.hex()

        assert box.inside(opaque) == "0001", "the oracle: elsewhere it passes"

    play(act)


# -- TLS ---------------------------------------------------------------------------------------------------------------


def certificate(scene: Scene, name: str) -> tuple[ssl.SSLContext, str]:
    """A TLS server that is `name`, and the file of who trusts it."""
    authority = make_authority("origins")
    trust = scene.directory / "trust.pem"
    trust.write_bytes(authority.certificate_pem)
    return Leaves(authority, str(scene.directory)).context(Host(name)), str(trust)


def tls(name: str, port: int, trust: str, sni: str | None = None, *, check: bool = True) -> str:
    """A TLS client's way: what it hears, or why it hears nothing."""
    context = ssl.create_default_context(cafile=trust)
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with connect(name, port) as raw, context.wrap_socket(raw, server_hostname=sni) as sock:
            return talk(sock, get(name))
    except (ssl.SSLError, ConnectionResetError, OSError) as error:
        return f"<{type(error).__name__} {error}>"


def box_trust(scene: Scene, box: BoxScene) -> str:
    path = scene.directory / f"{box.name}.pem"
    path.write_bytes(box.authority.certificate_pem)
    return str(path)


@pytest.mark.parametrize("port", [443, 8443])
def test_tls_reaches_the_name_it_asks_for_and_a_denied_one_explains_itself_in_tls(port: int) -> None:
    def act(scene: Scene) -> None:
        context, trust = certificate(scene, "allowed.test")
        scene.origin(port, over_tls(context, web))
        scene.names("allowed.test", "denied.test")
        box = scene.box(policy("allowed.test"))
        own = box_trust(scene, box)
        assert "200 OK" in box.inside(lambda: tls("allowed.test", port, trust, "allowed.test"))
        said = box.inside(lambda: tls("denied.test", port, own, "denied.test"))
        assert "403 Forbidden" in said
        assert f"paddock policy allow --box {box.name} denied.test:{port}" in said

    play(act)


@pytest.mark.parametrize("port", [443, 8443])
def test_tls_for_another_name_than_the_connections_is_refused(port: int) -> None:
    def act(scene: Scene) -> None:
        context, trust = certificate(scene, "allowed.test")
        scene.origin(port, over_tls(context, web))
        scene.names("allowed.test", "other.test")
        box = scene.box(policy("allowed.test", "other.test"))
        own = box_trust(scene, box)
        assert "200 OK" in box.inside(lambda: tls("allowed.test", port, trust, "allowed.test"))
        said = box.inside(lambda: tls("allowed.test", port, own, "other.test"))
        assert "TLS asks for other.test on a connection to allowed.test" in said

    play(act)


def test_tls_without_a_name_passes_only_by_a_rule_that_bypasses() -> None:
    def act(scene: Scene) -> None:
        context, trust = certificate(scene, "allowed.test")
        scene.origin(443, over_tls(context, web))
        scene.names("allowed.test", "opaque.test")
        box = scene.box(policy("allowed.test", bypass=["opaque.test"]))
        said = box.inside(lambda: tls("allowed.test", 443, trust, None, check=False))
        assert "200 OK" not in said
        assert "without a server name" in box.refusals()[-1]["reason"]
        assert "200 OK" in box.inside(lambda: tls("opaque.test", 443, trust, None, check=False))

    play(act)


# -- the host's own ----------------------------------------------------------------------------------------------------


def test_a_port_of_the_host_is_reached_when_it_is_allowed_and_by_localhost_too() -> None:
    def act(scene: Scene) -> None:
        scene.origin(5432, banner)
        scene.origin(5433, banner)
        box = scene.box(policy("localhost:5432"), ports=[5432])
        assert "hello" in box.inside(lambda: attempt(("127.0.0.1", 5432), b"x"))
        assert "hello" in box.inside(lambda: by_name("host.docker.internal", 5432, b"x"))
        assert box.inside(lambda: by_name("host.docker.internal", 5433)) == "<reset>"

        def closed() -> str:
            try:
                return attempt(("127.0.0.1", 5433))
            except ConnectionRefusedError:
                return "<refused>"

        assert box.inside(closed) == "<refused>"

    play(act)


def test_names_are_answered_over_tcp_too() -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy("allowed.test"))

        def ask() -> list[int]:
            question = b"\x07allowed\x04test\0" + struct.pack(">HH", 1, 1)
            query = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question
            with socket.create_connection((limits.GATEWAY_ADDRESS, 53), 5) as sock:
                sock.sendall((struct.pack(">H", len(query)) + query) * 2)
                found = b""
                while len(found) < 2 * (2 + len(query) + 16):
                    found += sock.recv(4096)
            return [len(found), found[-4]]

        length, first = box.inside(ask)
        assert first == 198
        assert length > 0

    play(act)


def test_after_a_restart_an_old_address_still_leads_to_the_name_that_the_client_says() -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, web)
        scene.origin(22, banner)
        scene.names("allowed.test", "denied.test")
        box = scene.box(policy("allowed.test"))
        address = "198.19.200.200"
        assert "200 OK" in box.inside(lambda: attempt((address, 80), get("allowed.test")))
        assert "403" in box.inside(lambda: attempt((address, 80), get("denied.test")))
        assert box.inside(lambda: attempt((address, 22))) == "<reset>"

    play(act)


def test_the_gateways_own_listener_serves_nobody_who_was_not_turned_to_it() -> None:
    def act(scene: Scene) -> None:
        box = scene.box(policy(default=Default.ALLOW))
        assert box.inside(lambda: attempt(("127.0.0.1", limits.SEAL_TCP_PORT), get("allowed.test"))) == "<reset>"

    play(act)


def test_observed_connections_pass_and_are_marked() -> None:
    def act(scene: Scene) -> None:
        scene.origin(80, web)
        scene.names("new.test")
        box = scene.box(policy(default=Default.OBSERVE))
        assert "200 OK" in box.inside(lambda: by_name("new.test", 80, get("new.test")))
        assert {r["decision"] for r in box.records() if r["event"] != "policy"} == {"observe"}

    play(act)


def test_who_cannot_be_reached_says_so() -> None:
    def act(scene: Scene) -> None:
        scene.names("allowed.test")
        scene.know(nameservers=())
        box = scene.box(policy("allowed.test", "nowhere.test"))
        said = box.inside(lambda: by_name("allowed.test", 80, get("allowed.test")))
        assert said.startswith("HTTP/1.1 502")
        assert "refused" in said
        assert "no nameserver" in box.inside(lambda: by_name("nowhere.test", 80, get("nowhere.test")))
        assert box.inside(lambda: by_socks("allowed.test", 81)) == "socks refused 5"
        assert json.loads(box.audit[0].read_text().splitlines()[-1])["event"] == "end"

    play(act)

"""Boxes with a gateway: what reaches it, what of its loopback is the box's own, and what happens when it dies."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock import limits, proc
from paddock.engines.process import handle
from paddock.errors import Unavailable
from tests.support import contract
from tests.support.gateway import TestGateway
from tests.support.installation import IS_ROOT, children, until
from tests.support.sealed import SealedBox, descriptors, new_box, sealed_box

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.engines.base import Placement

pytestmark = pytest.mark.box
ENGINES = contract.CORE
Pair = tuple[SealedBox, TestGateway]

# Connects, and says what it was told, or the name of the error.
TALK = """
import socket
def talk(host, port):
    try:
        with socket.create_connection((host, port), 10) as peer:
            return peer.recv(100).decode()
    except OSError as error:
        return word(error.errno) if error.errno else type(error).__name__
say([talk(host, port) for host, port in ARGS])
"""


@pytest.fixture
def pair() -> Iterator[Pair]:
    with sealed_box() as found:
        yield found


def test_a_name_that_is_allowed_is_reached_by_any_program(pair: Pair) -> None:
    box, gateway = pair
    assert box.inside(TALK, ("allowed.test", 1234)) == ["198.18.1.7:1234\n"]
    assert box.sh("exec 3<>/dev/tcp/allowed.test/22; cat <&3").stdout in {b"", b"198.18.1.7:22\n"}  # dash has none
    assert box.run("bash", "-c", "exec 3<>/dev/tcp/allowed.test/22; cat <&3").stdout == b"198.18.1.7:22\n"
    assert "allowed.test" in gateway.asked


def test_a_name_that_is_not_leads_to_the_refusal(pair: Pair) -> None:
    box, gateway = pair
    assert box.inside(TALK, ("denied.test", 443)) == ["ECONNRESET"]
    assert gateway.connections[-1] == (limits.REFUSAL_ADDRESS, 443)


def test_the_gateway_has_its_names_in_every_box(pair: Pair) -> None:
    box, gateway = pair
    program = "import socket; say([socket.gethostbyname(name) for name in ARGS])"
    before = list(gateway.asked)
    names = ("gateway.paddock", "host.docker.internal")
    assert box.inside(program, *names) == [limits.GATEWAY_ADDRESS] * 2
    assert gateway.asked == before, "they are in /etc/hosts"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_port_of_localhost_leads_to_the_gateway_when_it_is_given(host: str) -> None:
    with sealed_box(5432, 80) as (box, gateway):
        said = box.inside(TALK, (host, 5432), (host, 80), (host, 5433))
        assert said == ["localhost:5432\n", "localhost:80\n", "ECONNREFUSED"]
        assert len(gateway.sockets) == 6


def test_a_port_of_localhost_is_given_and_taken_while_the_box_runs(pair: Pair) -> None:
    box, gateway = pair
    assert box.inside(TALK, ("localhost", 443)) == ["ECONNREFUSED"]
    answer, listeners = gateway.ask(op="listen", port=443)
    assert (answer, len(listeners)) == ({"ok": True}, 2)

    def serve() -> None:
        listeners[0].setblocking(True)
        with listeners[0].accept()[0] as peer:
            peer.sendall(b"from the host")

    thread = threading.Thread(target=serve)
    thread.start()
    assert box.inside(TALK, ("127.0.0.1", 443)) == ["from the host"]
    thread.join(10)
    assert gateway.ask(op="unlisten", port=443) == ({"ok": True}, [])
    for sock in listeners:
        sock.close()
    assert box.inside(TALK, ("127.0.0.1", 443)) == ["ECONNREFUSED"]


SERVE = """
import socket
server = socket.create_server((ARGS[0], ARGS[1]), family=socket.AF_INET6 if ":" in ARGS[0] else socket.AF_INET)
say(server.getsockname()[1])
peer = server.accept()[0]
peer.sendall(b"from the box")
peer.close()
"""


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_gateway_reaches_a_server_of_the_box(address: str) -> None:
    with sealed_box(published=80) as (box, gateway):
        _reach(box, gateway, address)


def _reach(box: SealedBox, gateway: TestGateway, address: str) -> None:
    from tests.support import attack

    with box.client() as client:
        box.begin(client, *attack.program(SERVE, address, 80))  # a port that outside is only root's
        assert client.read_until(b"\n") == b"80\n"
        answer, (sock,) = gateway.ask(op="dial", port=80)
        assert answer == {"ok": True}
        with sock:
            sock.settimeout(10)
            assert sock.recv(100) == b"from the box"
        assert client.finish().code == 0
    assert gateway.ask(op="dial", port=80) == ({"error": "ECONNREFUSED"}, [])


def test_processes_of_a_box_meet_on_its_loopback(pair: Pair) -> None:
    box, gateway = pair
    before = len(gateway.connections)
    program = """
import socket
def stream(family, address):
    with socket.create_server((address, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2], 5) as client, server.accept()[0] as peer:
            client.sendall(b"hello")
            return peer.recv(10).decode()
def datagram(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as one, socket.socket(family, socket.SOCK_DGRAM) as two:
        one.bind((address, 0))
        one.settimeout(5)
        two.sendto(b"hello", one.getsockname()[:2])
        return one.recv(10).decode()
say([how(family, address) for how in (stream, datagram)
     for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.8.8.8"), (socket.AF_INET6, "::1"))])
"""
    assert box.inside(program) == ["hello"] * 6
    assert len(gateway.connections) == before


def test_a_gateway_that_dies_closes_the_box_and_the_next_one_opens_it(pair: Pair) -> None:
    box, gateway = pair
    assert gateway.is_open()
    gateway.close()
    until(lambda: not gateway.is_open(), "the door is shut")
    assert box.sh("echo still here").stdout == b"still here\n"
    program = TALK.replace(", 10)", ", 0.5)")
    assert box.inside(program, ("198.18.1.7", 80)) == ["TimeoutError"]
    with TestGateway() as other:
        box.engine.reseal(box.placement, other.door)
        assert other.sealed.wait(10)
        assert box.inside(TALK, ("allowed.test", 80), ("denied.test", 80)) == ["198.18.1.7:80\n", "ECONNRESET"]
        assert other.is_open()


def test_a_new_door_shuts_the_old_one(pair: Pair) -> None:
    box, gateway = pair
    for sock in gateway.ask(op="listen", port=5432)[1]:
        sock.close()
    with TestGateway() as other:
        box.engine.reseal(box.placement, other.door)
        assert other.sealed.wait(10)
        assert len(other.sockets) == 4, "with the listeners that were made meanwhile"
        assert other.ask(op="unlisten", port=5432) == ({"ok": True}, [])
        assert not gateway.is_open()


def test_a_door_that_is_none_is_refused_and_the_old_one_stays(pair: Pair) -> None:
    box, gateway = pair
    with open("/dev/null", "rb") as file, pytest.raises(Unavailable, match="takes no new gateway"):
        box.engine.reseal(box.placement, file.fileno())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs, pytest.raises(Unavailable, match="takes no new gateway"):
        box.engine.reseal(box.placement, theirs.fileno())
    assert gateway.ask(op="unlisten", port=1) == ({"ok": True}, [])


def test_a_box_without_a_gateway_takes_no_door_and_has_its_loopback_alone() -> None:
    with new_box() as box, TestGateway() as gateway:
        box.start(None)
        with pytest.raises(Unavailable, match="this box has no gateway"):
            box.engine.reseal(box.placement, gateway.door)
        assert box.inside(TALK, ("198.18.1.7", 80), ("127.0.0.1", 9)) in (
            ["ENETUNREACH", "ECONNREFUSED"],
            ["EHOSTUNREACH", "ECONNREFUSED"],  # gVisor's word
        )
        box.stop()
        with pytest.raises(Unavailable):
            box.engine.reseal(box.placement, gateway.door)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("refusal", "198.18.1.1", "a denied name was not answered with the refusal address"),
        ("direct", b"welcome", "a direct connection was let out"),
    ],
)
def test_a_box_whose_seal_leaks_does_not_start(name: str, value: object, said: str) -> None:
    with new_box() as box, TestGateway() as gateway:
        setattr(gateway, name, value)
        with pytest.raises(Unavailable, match=said) as caught:
            box.start(gateway.door)
        assert caught.value.code == "start-seal"
        until(lambda: not children(box.launcher.pid or 0), "no process is left")
    with new_box() as box, TestGateway() as gateway:
        box.start(gateway.door)  # the oracle


def test_a_box_whose_gateway_is_gone_does_not_start() -> None:
    with new_box() as box, TestGateway() as gateway:
        door = os.dup(gateway.door)
        gateway.close()
        with pytest.raises(Unavailable) as caught:
            box.start(door)
        assert caught.value.code == "start-network"
        os.close(door)


def test_why_a_box_ended_is_known_however_late_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = handle.hold

    def late(placement: Placement, pid: int, kind: type[handle.ProcessHandle]) -> handle.ProcessHandle:
        until(lambda: proc.identity(pid) is None, "it has ended")
        return hold(placement, pid, kind)

    monkeypatch.setattr(handle, "hold", late)
    with new_box() as box, TestGateway() as gateway:
        door = os.dup(gateway.door)
        gateway.close()
        with pytest.raises(Unavailable) as caught:
            box.start(door)
        assert caught.value.code == "start-network"
        os.close(door)


def test_a_flood_of_requests_does_not_disturb_the_box(pair: Pair) -> None:
    box, gateway = pair
    held = descriptors(box.pid) if IS_ROOT else 0  # nobody else may look at a process that is not dumpable
    gateway._ours.settimeout(0.2)
    sent = 0
    try:
        for _ in range(50_000):
            gateway.send_only(b'{"op":"dial","port":%d}' % limits.SEAL_TCP_PORT)
            sent += 1
    except TimeoutError:
        pass
    assert sent < 50_000, "it is bounded by the socket"
    assert box.sh("echo still here").stdout == b"still here\n"
    assert not IS_ROOT or descriptors(box.pid) < held + 5
    for _ in range(sent):
        for sock in gateway.hear()[1]:
            sock.close()


def test_commands_inherit_none_of_inits_sockets(pair: Pair) -> None:
    box, gateway = pair
    for sock in gateway.ask(op="listen", port=5432)[1]:
        sock.close()
    assert box.sh("ls -l /proc/self/fd | grep -c socket").stdout == b"0\n"
    with socket.socket() as oracle:
        assert "socket" in os.readlink(f"/proc/self/fd/{oracle.fileno()}")


def test_the_gateways_files_are_shown_to_be_read() -> None:
    with new_box() as box, TestGateway() as gateway:
        net = box.root / "boxes/one/net"
        (net / "denials.jsonl").write_text("")
        (net / "bundle.pem").write_text("the authorities\n")
        (net / "cacerts").write_bytes(b"java")
        for file in net.iterdir():
            file.chmod(0o600)
        box.start(gateway.door)
        with (net / "denials.jsonl").open("a") as log:
            log.write("no\n")
        assert box.sh("cat /run/paddock/denials.jsonl").stdout == b"no\n"
        assert box.sh("cat /run/paddock/ca-bundle.pem $SSL_CERT_FILE $PIP_CERT").stdout == b"the authorities\n" * 3
        for path, wanted in {
            "/etc/ssl/certs/ca-certificates.crt": b"the authorities\n",
            "/etc/ssl/certs/java/cacerts": b"java",
        }.items():
            if os.path.isfile(path) and not box.kind.template:  # an image's own list is its package's to change
                assert box.run("cat", path).stdout == wanted
        for path in ("/run/paddock/denials.jsonl", "/run/paddock/ca-bundle.pem", "/run/paddock/new"):
            assert box.sh(f"echo x >> {path}").code != 0
            assert box.sh(f"rm -f {path}; test -e {path}").code == (1 if path.endswith("new") else 0)


def test_a_box_without_such_files_has_the_hosts_authorities(pair: Pair) -> None:
    box, _ = pair
    assert "SSL_CERT_FILE" not in box.engine.environment(box.placement)
    assert box.sh("cat /run/paddock/denials.jsonl /run/paddock/ca-bundle.pem").stdout == b""

"""No network by default: nothing leaves a box, nothing of the host's loopback answers it, and boxes do not meet.

What the gateway does with what it is asked is tested elsewhere (tests/gateway, tests/network); what a sealed network
itself refuses in test_seal.py. Here a plain box of a real daemon is attacked.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.model import ExecSpec
from tests.support import attack, contract
from tests.support.attack import inside, outside, twin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
UNREACHABLE = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "ECONNREFUSED"}
REFUSED = {*UNREACHABLE, "ECONNRESET"}  # the last by the gateway, which is where every connection ends

# Being connected is nothing yet: in a box the gateway takes every connection, to refuse it. A word from the server is.
CONNECT = """
import socket
def connect(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as peer:
        peer.settimeout(5)
        peer.connect((host, port))
        if not peer.recv(10):
            raise ConnectionResetError(104, "ended without a word")
say([attempt(connect, host, port) for host, port in ARGS])
"""


def host_addresses() -> list[str]:
    """The machine's own IPv4 addresses, interface by interface."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


@contextlib.contextmanager
def greeting(address: str) -> Iterator[int]:
    """The port of a TCP server that says a word to everyone."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=64) as listener:

        def greet() -> None:
            with contextlib.suppress(OSError):  # until it is shut down
                while True:
                    with listener.accept()[0] as peer:
                        peer.sendall(b"hello")

        with attack.background(greet):
            yield int(listener.getsockname()[1])
            listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server() -> Iterator[int]:
    """A TCP server on every address of the host."""
    with greeting("0.0.0.0") as port:
        yield port


def test_the_hosts_own_addresses_do_not_answer(box: Box, server: int) -> None:
    rows = [(address, server) for address in {*host_addresses(), "127.0.0.1", "127.1.2.3", "0.0.0.0"}]
    assert set(outside(CONNECT, *rows)) == {"ok"}
    assert set(inside(box, CONNECT, *rows)) <= REFUSED


def test_ipv6_leads_nowhere_either(box: Box) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with contextlib.ExitStack() as stack:
        try:
            port = stack.enter_context(greeting("::1"))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        assert outside(CONNECT, ("::1", port), ("::ffff:127.0.0.1", 9))[0] == "ok"
        others = [
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "2606:4700::1111",
            "fe80::1",
            "64:ff9b::7f00:1",
            "fd00:ec2::254",
        ]
        assert set(inside(box, CONNECT, *((host, port) for host in others))) <= {*REFUSED, "EINVAL"}


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255"],
)
def test_no_route_leads_out(box: Box, address: str) -> None:
    """Refused at once: TCP by the gateway, everything else by the box's own rules, so there is nothing to wait for."""
    program = """
import socket
def tcp():
    with socket.socket() as peer:
        peer.settimeout(1 if ARGS[1] else 5)
        peer.connect((ARGS[0], 9))
        if not peer.recv(10):
            raise ConnectionResetError(104, "ended without a word")
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        peer.sendto(b"x", (ARGS[0], 9))
        answer(peer)
def ping():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as peer:
        peer.sendto(bytes([8]) + bytes(7), (ARGS[0], 0))
        answer(peer)
def answer(peer):
    if ARGS[1]:
        peer.settimeout(0.3)
        peer.recv(100)
say([attempt(act) for act in (tcp, udp, ping)])
"""
    own = contract.own_kernel()  # what leaves a network stack of its own is refused behind it: nothing is answered
    refused = inside(box, program, address, own)
    assert set(refused) <= {*REFUSED, "EACCES", "EPERM", "EINVAL", *(("None",) if own else ())}, refused
    local = inside(box, program, "127.0.0.1", False)  # the oracle: the same datagram goes out where there is a route
    assert local[1] == "ok"


def test_tools_that_ignore_every_proxy_setting_get_nowhere(box: Box, server: int) -> None:
    script = f"env -i bash -c 'echo hi > /dev/tcp/127.0.0.1/{server}'; env -i bash -c 'echo hi > /dev/udp/1.1.1.1/443'"
    assert outside("import os; say(os.system(ARGS[0]))", f"bash -c 'echo hi > /dev/tcp/127.0.0.1/{server}'") == 0
    done = box.exec(["sh", "-c", script])
    assert b"refused" in done.stderr
    if not contract.own_kernel():  # of which a datagram is refused when it has left it
        assert done.exit_code != 0
        assert b"not permitted" in done.stderr


def test_a_datagram_to_the_hosts_loopback_never_arrives(box: Box) -> None:
    program = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    say(attempt(peer.sendto, ARGS[1].encode(), ("127.0.0.1", ARGS[0])))
"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        port = receiver.getsockname()[1]
        assert inside(box, program, port, "from a box") == "ok"  # into its own loopback
        assert outside(program, port, "from outside") == "ok"
        assert receiver.recv(100) == b"from outside"


# family, type, protocol: kinds of sockets that are no TCP, UDP or ping
KINDS = {
    "packet": (17, 3, 0x300),
    "packet by inet": (2, 10, 0x300),
    "raw": (2, 3, 255),
    "raw ipv6": (10, 3, 255),
    "vsock": (40, 1, 0),
    "alg": (38, 5, 0),
    "xdp": (44, 3, 0),
    "bluetooth": (31, 1, 3),
    "can": (29, 3, 1),
    "key": (15, 3, 2),
    "tipc": (30, 1, 0),
    "rds": (21, 5, 0),
    "smc": (43, 1, 0),
    "sctp": (2, 1, 132),
    "dccp": (2, 6, 33),
    "mptcp": (2, 1, 262),
    "netlink audit": (16, 3, 9),
    "netlink netfilter": (16, 3, 12),
    "netlink sock_diag": (16, 3, 4),
    "netlink generic": (16, 3, 16),
    "netlink uevent": (16, 3, 15),
}
OPEN = """
def make(family, kind, protocol):
    fd = libc.socket(family, kind, protocol)
    return "ok" if fd >= 0 else word(ctypes.get_errno())
say({name: make(*how) for name, how in ARGS[0].items()})
"""


def test_only_plain_kinds_of_sockets_exist(box: Box) -> None:
    oracle = twin(OPEN, KINDS)
    possible = {name for name, word in oracle.items() if word == "ok"}
    assert {"packet", "packet by inet", "raw", "raw ipv6", "netlink netfilter", "netlink sock_diag"} <= possible
    refused = inside(box, OPEN, KINDS)
    if contract.own_kernel():
        del refused["netlink uevent"]  # that kernel's own, which has no devices to speak of
    assert "ok" not in refused.values(), refused
    plain = {"tcp": (2, 1, 0), "udp": (2, 2, 0), "tcp6": (10, 1, 0), "unix": (1, 1, 0), "route": (16, 3, 0)}
    assert set(inside(box, OPEN, plain).values()) == {"ok"}


NETLINK = """
import socket, struct
def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data
def send(kind, flags, body):
    with socket.socket(16, 3, 0) as route:
        route.bind((0, 0))
        route.send(struct.pack("IHHII", 16 + len(body), kind, 1 | 4 | flags, 1, 0) + body)
        answer = route.recv(65536)
        code = struct.unpack_from("i", answer, 16)[0]
        return word(-code) if code else "ok"
lo = socket.if_nametoindex("lo")
ten = bytes([10, 9, 9, 9])
address = struct.pack("BBBBI", 2, 24, 0, 0, lo) + attribute(2, ten) + attribute(1, ten)
up = struct.pack("BxHiII", 0, 0, lo, 1, 1)
route = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 4, 253, 1, 0) + attribute(4, struct.pack("i", lo))
link = struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"made\\0") + attribute(18, attribute(1, b"bridge\\0"))
say({
    "up": send(16, 0, up),
    "address": send(20, 0x400, address),
    "route": send(24, 0x400, route),
    "link": send(16, 0x600, link),
})
"""


def test_addresses_routes_and_links_cannot_be_changed(box: Box) -> None:
    oracle = twin(NETLINK)
    assert (oracle["up"], oracle["address"], oracle["route"]) == ("ok", "ok", "ok")
    assert set(inside(box, NETLINK).values()) <= {"EPERM", "EACCES"}
    if contract.own_kernel():
        return  # it has a link to the sealed network, and that is all
    listed = box.exec(["cat", "/proc/net/dev", "/proc/net/route"]).stdout.decode().splitlines()
    assert [line.split(":")[0].strip() for line in listed if ":" in line] == ["lo"]
    assert listed[-1].startswith("Iface")  # the table of routes is empty


def test_nothing_that_names_hosts_can_be_changed(box: Box) -> None:
    program = "say([attempt(open, path, 'a') for path in ARGS] + [attempt(__import__('socket').sethostname, 'x')])"
    words = inside(box, program, "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hostname")
    assert set(words) <= {"EROFS", "EACCES", "EPERM"}


def test_loopback_inside_works(box: Box) -> None:
    program = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
        client.sendall(b"hello")
        say(peer.recv(10).decode())
"""
    assert inside(box, program) == "hello"
    assert inside(box, program.replace("127.0.0.1", "localhost")) == "hello"


SERVE = """
import socket
tcp = socket.create_server(("0.0.0.0", 0))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0" + ARGS[0])
abstract.listen()
say(tcp.getsockname()[1])
while True:
    with tcp.accept()[0] as peer:
        peer.sendall(b"hello")
"""


def test_two_boxes_do_not_meet(paddock: Paddock, installation: Installation, box: Box, nonce: str) -> None:
    command = box.start(ExecSpec(argv=tuple(attack.program(SERVE, nonce)), stdin=True))
    try:
        port = int(next(iter(command.output()))[1])
        other = paddock.create("other", workspace=str(installation.workspace))
        rows = [("127.0.0.1", port), *((address, port) for address in host_addresses())]
        program = f"""
import socket
def abstract():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect("\\0{nonce}")
say(attempt(abstract))
"""
        assert inside(box, CONNECT, rows[0]) == ["ok"]
        assert inside(box, program) == "ok"
        assert set(inside(other, CONNECT, *rows)) <= REFUSED
        assert inside(other, program) == "ECONNREFUSED"
        assert set(outside(CONNECT, *rows)) <= UNREACHABLE  # and the host does not see it either
    finally:
        command.close()


def test_every_name_means_the_refusal(box: Box) -> None:
    program = """
import socket
def look(name):
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except OSError:
        return None
say([look("example.com"), look("localhost")])
"""
    assert inside(box, program) in ([limits.REFUSAL_ADDRESS, "127.0.0.1"], [limits.REFUSAL_ADDRESS, "::1"])

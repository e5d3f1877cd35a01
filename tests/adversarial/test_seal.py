"""A sealed network attacked from inside: no protocol but TCP and names leaves it, and nobody inside changes that."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from paddock import limits
from tests.adversarial.test_network import KINDS, NETLINK, OPEN
from tests.support import contract
from tests.support.attack import number, outside, twin
from tests.support.gateway import ALLOWED, TestGateway
from tests.support.perkind import PerKind
from tests.support.sealed import SealedBox, sealed_box

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
Pair = tuple[SealedBox, TestGateway]


class Opened(ExitStack):
    """A box and its gateway, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = self.enter_context(sealed_box())


@pytest.fixture(scope="module")
def _opened() -> Iterator[PerKind[Opened]]:
    with PerKind(lambda _: Opened()) as made:
        yield made


@pytest.fixture
def pair(_opened: PerKind[Opened]) -> Pair:
    found = _opened.get().pair
    found[1].asked.clear()
    found[1].connections.clear()
    return found


# The oracle of most denials: a network as a box's, loopback and the route that makes all of IPv4 local, without rules.
UNSEALED = """
import socket, struct
def request(kind, flags, body):
    with socket.socket(16, 3, 0) as route:
        route.send(struct.pack("IHHII", 16 + len(body), kind, 1 | 4 | flags, 1, 0) + body)
        code = struct.unpack_from("i", route.recv(65536), 16)[0]
        assert not code, code
request(16, 0, struct.pack("BxHiII", 0, 0, 1, 1, 1))
request(24, 0x600, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 255, 3, 254, 2, 0) + struct.pack("HHi", 8, 4, 1))
"""


def compared(pair: Pair, source: str, *args: object) -> tuple[Any, Any]:
    """What an attack says in the box, and where there are no rules."""
    return pair[0].inside(source, *args), twin(UNSEALED + source, *args)


def refusals(*words: str) -> set[str]:
    """A stack of the box's own takes what it is given: it is refused behind it, as test_link.py sees, and not heard."""
    return {*words, *(("ok",) if contract.own_kernel() else ())}


DATAGRAMS = """
import socket
def send(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.sendto(b"x" * 1200, (address, port))
say([attempt(send, address, port) for address, port in ARGS])
"""
ADDRESSES = ("1.1.1.1", "8.8.8.8", "10.0.0.1", "169.254.169.254", "192.168.0.1", limits.GATEWAY_ADDRESS, ALLOWED)
PORTS = (1, 52, 67, 123, 443, 500, 853, 3478, 5353, 51820, 61001, 61053, 65535)


def test_no_datagram_leaves_but_questions_for_names(pair: Pair) -> None:
    rows = [(address, port) for address in ADDRESSES for port in PORTS]
    refused, oracle = compared(pair, DATAGRAMS, *rows)
    assert set(oracle) == {"ok"}
    assert set(refused) <= refusals("EPERM")
    assert pair[0].inside(DATAGRAMS, *(("127.0.0.1", port) for port in PORTS[:-4])) == ["ok"] * (len(PORTS) - 4)
    assert pair[1].asked == []


@pytest.mark.parametrize("address", ["224.0.0.251", "239.255.255.250", "255.255.255.255"])
def test_no_group_hears_a_box(pair: Pair, address: str) -> None:
    said = pair[0].inside(DATAGRAMS, (address, 5353), (address, 443))
    assert set(said) <= refusals("EPERM", "ENETUNREACH", "EACCES")
    assert pair[0].inside(DATAGRAMS, ("127.255.255.255", 5353)) != ["EPERM"]  # the oracle: not the option
    assert pair[1].asked == []


def test_a_connected_datagram_socket_is_refused_as_well(pair: Pair) -> None:
    program = """
import socket
def quic():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((ARGS[0], 443))
        sock.send(b"initial")
say(attempt(quic))
"""
    refused, oracle = compared(pair, program, ALLOWED)
    assert oracle == "ok"
    assert refused in refusals("EPERM")
    assert (pair[1].asked, pair[1].connections) == ([], [])


def test_a_large_datagram_in_fragments_is_refused(pair: Pair) -> None:
    program = DATAGRAMS.replace("1200", "60000")
    refused, oracle = compared(pair, program, ("1.1.1.1", 443), (ALLOWED, 53))
    assert oracle == ["ok", "ok"]
    assert refused[0] in refusals("EPERM")
    assert pair[1].connections == []


def test_no_ping_leaves(pair: Pair) -> None:
    program = """
import socket
def ping(kind):
    with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sock:
        sock.sendto(bytes([8, 0, 0xf7, 0xff]) + bytes(4), (ARGS[0], 0))
say([attempt(ping, kind) for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM)])
"""
    refused, oracle = compared(pair, program, "1.1.1.1")
    assert oracle[0] == "ok"
    assert refused[0] in {"EPERM", "EACCES"}
    assert refused[1] in refusals("EPERM", "EACCES")


def test_only_plain_kinds_of_sockets_exist(pair: Pair) -> None:
    oracle = twin(OPEN, KINDS)
    assert {"packet", "raw", "netlink netfilter"} <= {name for name, word in oracle.items() if word == "ok"}
    refused = pair[0].inside(OPEN, KINDS)
    if contract.own_kernel():
        del refused["netlink uevent"]  # that kernel's own, which has no devices to speak of
    assert "ok" not in refused.values(), refused
    assert refused["vsock"] == "EAFNOSUPPORT"
    plain = {"tcp": (2, 1, 0), "udp": (2, 2, 0), "tcp6": (10, 1, 0)}
    assert set(pair[0].inside(OPEN, plain).values()) == {"ok"}


CONNECT = """
import socket
def connect(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as peer:
        peer.settimeout(5)
        peer.connect((host, port))
        if peer.recv(10) == b"":
            raise ConnectionResetError(104, "ended")
say([attempt(connect, host, port) for host, port in ARGS])
"""


def test_no_address_of_ipv6_is_reached(pair: Pair) -> None:
    others = ("2606:4700::1111", "fe80::1", "fd00:ec2::254", "64:ff9b::101:101", "2002:7f00:1::", "ff02::1", "::2")
    said = pair[0].inside(CONNECT, *((address, 443) for address in others))
    assert set(said) <= {"ENETUNREACH", "EADDRNOTAVAIL", "EINVAL", "EHOSTUNREACH", "EACCES"}
    assert set(pair[0].inside(DATAGRAMS, *((address, 443) for address in others))) <= refusals(
        *("ENETUNREACH", "EADDRNOTAVAIL", "EINVAL", "EPERM", "EHOSTUNREACH")
    )
    assert pair[0].inside(DATAGRAMS, ("::1", 443)) == ["ok"], "the oracle"
    assert pair[1].connections == []


def test_an_ipv4_address_in_ipv6_clothes_meets_the_gateway(pair: Pair) -> None:
    said = pair[0].inside(CONNECT, ("::ffff:1.1.1.1", 443), (f"::ffff:{ALLOWED}", 443))
    assert said == ["ECONNRESET", "ok"]
    assert pair[1].connections == [("1.1.1.1", 443), (ALLOWED, 443)]


def test_every_address_of_ipv4_meets_the_gateway(pair: Pair) -> None:
    rows = [(address, port) for address in ("1.1.1.1", "169.254.169.254", "0.1.2.3", "198.18.0.2") for port in (22, 53)]
    assert set(pair[0].inside(CONNECT, *rows)) == {"ECONNRESET"}
    assert pair[1].connections == rows
    assert pair[0].inside(CONNECT, (ALLOWED, 22)) == ["ok"], "the oracle"


def test_a_direct_connection_to_the_gateways_listener_has_no_destination(pair: Pair) -> None:
    if contract.own_kernel():  # the listener is at the other end of its link
        assert pair[0].inside(CONNECT, ("127.0.0.1", limits.SEAL_TCP_PORT)) == ["ECONNREFUSED"]
        assert pair[1].connections == []
        return
    assert pair[0].inside(CONNECT, ("127.0.0.1", limits.SEAL_TCP_PORT)) == ["ECONNRESET"]
    assert pair[1].connections == [None]


def test_a_connection_from_a_chosen_source_meets_the_gateway_too(pair: Pair) -> None:
    program = """
import socket
def connect(source):
    with socket.create_connection((ARGS[0], 443), 5, source_address=(source, 0)) as peer:
        return peer.recv(100).decode()
say([connect(source) for source in ("127.0.0.1", "127.9.9.9", "1.2.3.4", "198.18.0.1")])
"""
    assert pair[0].inside(program, ALLOWED) == [f"{ALLOWED}:443\n"] * 4
    assert pair[1].connections == [(ALLOWED, 443)] * 4


STEAL = """
import socket
def take(kind, address, port, option):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as sock:
        for number in option:
            sock.setsockopt(socket.SOL_SOCKET, number, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen()
options = ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT))
places = [(kind, address) for kind in (1, 2) for address in ("127.0.0.1", "0.0.0.0", "::")]
say([attempt(take, kind, address, ARGS[kind - 1], option) for kind, address in places for option in options])
"""


def test_nobody_takes_the_gateways_sockets_by_binding_beside_them(pair: Pair) -> None:
    assert set(pair[0].inside(STEAL, limits.SEAL_TCP_PORT, limits.SEAL_DNS_PORT)) == {"EADDRINUSE"}
    assert set(pair[0].inside(STEAL, 61002, 61054)) == {"ok"}, "the oracle"


def test_nobody_takes_the_gateways_sockets_out_of_init(pair: Pair) -> None:
    program = """
def taken(pid):
    pidfd = os.pidfd_open(pid)
    return [call(ARGS[0], pidfd, fd, 0) for fd in range(3, 12)]
pid = ARGS[1] or os.getpid()
say([taken(pid), attempt(os.listdir, f"/proc/{pid}/fd"), attempt(os.open, f"/proc/{pid}/ns/net", os.O_RDONLY),
     call(ARGS[2], 16, pid, 0, 0), [attempt(os.readlink, f"/proc/{pid}/fd/{fd}") for fd in range(12)]])
"""
    numbers = number("pidfd_getfd"), number("ptrace")
    fds, listing, namespace, _, links = outside(program, numbers[0], 0, numbers[1])
    assert ("ok" in fds, "ok" in links, listing, namespace) == (True, True, "ok", "ok")
    fds, listing, namespace, traced, links = pair[0].inside(program, numbers[0], 1, numbers[1])
    assert set(fds) <= {"EPERM", "ENOSYS"}
    assert {namespace, traced} <= {"EACCES", "EPERM"}
    assert "EACCES" in links
    assert set(links) <= {"EACCES", "ENOENT"}
    assert listing in {"EACCES", "EPERM", *(["ok"] if contract.current().template else [])}, "root may count them"


def test_routes_addresses_and_links_stay_as_they_are(pair: Pair) -> None:
    oracle = twin(NETLINK)
    assert (oracle["up"], oracle["address"], oracle["route"]) == ("ok", "ok", "ok")
    assert set(pair[0].inside(NETLINK).values()) == {"EACCES" if contract.own_kernel() else "EPERM"}


UNSHARE = """
def child(flags):
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        result = libc.unshare(ctypes.c_int(flags))
        os._exit(ctypes.get_errno() if result else 0)
    return word(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) if True else None
say([child(flags) for flags in (0x10000000, 0x40000000, 0x50000000)])
"""


def test_no_namespace_is_made_in_which_the_rules_could_be_changed(pair: Pair) -> None:
    assert twin(UNSHARE) == ["0", "0", "0"]
    assert set(pair[0].inside(UNSHARE)) <= {"EPERM", "ENOSPC", "ENOSYS"}


NFT = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")


@pytest.mark.skipif(NFT is None, reason="nft is not installed")
@pytest.mark.parametrize("command", ["flush ruleset", "list ruleset", "add table inet other"])
def test_the_tool_that_changes_rules_changes_none(pair: Pair, command: str) -> None:
    program = """
import shutil, subprocess
nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")
say(subprocess.run([nft, *ARGS], capture_output=True).returncode)
"""
    refused, oracle = compared(pair, program, *command.split())
    assert oracle == 0
    assert refused != 0
    assert pair[0].inside(DATAGRAMS, ("1.1.1.1", 443))[0] in refusals("EPERM")
    assert pair[0].inside(CONNECT, ("1.1.1.1", 443), (ALLOWED, 443)) == ["ECONNRESET", "ok"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("net/ipv4/ip_unprivileged_port_start", "1024"),
        ("net/ipv4/conf/lo/route_localnet", "1"),
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv6/conf/lo/disable_ipv6", "1"),
        ("net/netfilter/nf_conntrack_udp_timeout", "9999"),
        ("net/ipv4/ping_group_range", "0 2147483647"),
    ],
)
def test_no_setting_of_the_network_is_changed(pair: Pair, name: str, value: str) -> None:
    program = "say(attempt(lambda: open(f'/proc/sys/{ARGS[0]}', 'w').write(ARGS[1])))"
    refused = pair[0].inside(program, name, value)
    own = {"ok"} if contract.own_kernel() and name == "net/ipv4/ip_forward" else set()  # of a stack with one interface
    assert refused in {"EROFS", "EACCES", "EPERM", "ENOENT", *own}
    assert pair[0].inside(CONNECT, ("1.1.1.1", 443), (ALLOWED, 443)) == ["ECONNRESET", "ok"]
    if "netfilter" not in name and "ping" not in name:  # which need rules first, and ids beyond the oracle's map
        assert twin(program, name, value) == "ok"


def test_a_box_that_answers_for_itself_fools_only_itself(pair: Pair) -> None:
    """All of IPv4 is local, so a process may bind any address; but nothing leads there but the gateway."""
    program = """
import socket
server = socket.create_server((ARGS[0], 8443))
with socket.create_connection((ARGS[0], 8443), 5) as peer:
    say([server.getsockname()[0], peer.recv(100).decode()])
"""
    assert pair[0].inside(program, ALLOWED) == [ALLOWED, f"{ALLOWED}:8443\n"]


def test_a_flood_of_connections_and_questions_leaves_the_box_as_it_was(pair: Pair) -> None:
    program = """
import socket
made = []
for number in range(2000):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((ARGS[0], 1 + number))
    made.append(sock)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.setblocking(False)
        attempt(asked.sendto, b"x", (ARGS[0], 54))
say(len(made))
"""
    assert pair[0].inside(program, "1.1.1.1") == 2000
    assert pair[0].inside(CONNECT, (ALLOWED, 22)) == ["ok"]
    assert pair[1].ask(op="unlisten", port=1) == ({"ok": True}, [])

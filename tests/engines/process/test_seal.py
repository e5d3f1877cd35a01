"""A sealed network, made in a real namespace: what leads where, and that a seal that leaks is no box."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import kernel, netlink, nft, seal
from tests.support import namespaces
from tests.support.gateway import TestGateway, original_destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.guest.door import Seal

NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET
_SIOCSIFADDR = 0x8916


def _number(act: Callable[[], object]) -> int:
    try:
        act()
    except OSError as found:
        return found.errno or -1
    return 0


def sealed(act: Callable[[Seal], None], *ports: int) -> None:
    """Run `act` in a sealed network whose door leads nowhere."""

    def inside() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            seal.close_off()
            act(seal.make(ours.detach(), list(ports)))

    namespaces.inside(inside, NET)


def test_a_network_is_closed_off_with_loopback_alone() -> None:
    def act() -> None:
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("127.0.0.1", 9))) == errno.ENETUNREACH, "loopback is down at first"
        seal.close_off()
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("127.0.0.1", 9))) == errno.ECONNREFUSED
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("198.51.100.1", 9))) == errno.ENETUNREACH

    namespaces.inside(act, NET)


def test_a_network_with_a_way_out_is_not_sealed() -> None:
    def act() -> None:
        seal.close_off()
        address = struct.pack("16sH2x4s8x", b"lo", socket.AF_INET, socket.inet_aton("198.51.100.7"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _SIOCSIFADDR, address)
        with pytest.raises(OSError, match="has a way out"):
            seal.close_off()

    namespaces.inside(act, NET)


@pytest.mark.parametrize("address", ["198.18.0.1", "198.18.5.5", "1.1.1.1", "169.254.169.254", "10.0.0.1"])
def test_tcp_to_anywhere_ends_at_the_gateways_listener(address: str) -> None:
    def act(made: Seal) -> None:
        with socket.socket() as sock:
            sock.settimeout(5)
            sock.connect((address, 443))
            with made.tcp.accept()[0] as peer:
                assert original_destination(peer) == (address, 443)

    sealed(act)


@pytest.mark.parametrize("address", ["198.18.0.1", "8.8.8.8", "127.0.0.1", "127.0.0.53"])
def test_a_question_for_a_name_ends_at_the_gateways_socket_and_its_answer_comes_back(address: str) -> None:
    def act(made: Seal) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.connect((address, 53))
            sock.send(b"question")
            data, peer = made.udp.recvfrom(100)
            made.udp.sendto(data[::-1], peer)
            assert sock.recv(100) == b"noitseuq"

    sealed(act)


@pytest.mark.parametrize("port", [1, 52, 54, 123, 443, 5353, 51820, 61053])
def test_other_datagrams_are_refused_at_once(port: int) -> None:
    def act(_made: Seal) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for address in ("198.18.0.1", "1.1.1.1", "192.168.0.1"):
                assert _number(lambda to=address: sock.sendto(b"x", (to, port))) == errno.EPERM  # type: ignore[misc]
            sock.sendto(b"x", ("127.0.0.1", port))

    sealed(act)


def test_ipv6_has_its_loopback_and_no_more() -> None:
    def act(_made: Seal) -> None:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
            socket.create_connection(server.getsockname()[:2], 5).close()
        with socket.socket(socket.AF_INET6) as sock:
            assert _number(lambda: sock.connect(("2606:4700::1111", 443))) == errno.ENETUNREACH

    sealed(act)


def test_a_mapped_ipv4_address_is_the_gateways_too() -> None:
    def act(made: Seal) -> None:
        with socket.socket(socket.AF_INET6) as sock:
            sock.settimeout(5)
            sock.connect(("::ffff:1.2.3.4", 80))
            with made.tcp.accept()[0] as peer:
                assert original_destination(peer) == ("1.2.3.4", 80)

    sealed(act)


def test_a_direct_connection_to_the_listener_has_no_destination() -> None:
    def act(made: Seal) -> None:
        with socket.create_connection(("127.0.0.1", limits.SEAL_TCP_PORT), 5), made.tcp.accept()[0] as peer:
            assert original_destination(peer) is None
        with socket.create_connection(("198.18.0.1", limits.SEAL_TCP_PORT), 5), made.tcp.accept()[0] as peer:
            assert original_destination(peer) == ("198.18.0.1", limits.SEAL_TCP_PORT), "the oracle"

    sealed(act)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "198.18.0.1"])
@pytest.mark.parametrize("option", [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_nobody_else_can_bind_the_gateways_ports(address: str, option: int | None) -> None:
    def act(_made: Seal) -> None:
        for kind, port in ((socket.SOCK_STREAM, limits.SEAL_TCP_PORT), (socket.SOCK_DGRAM, limits.SEAL_DNS_PORT)):
            with socket.socket(socket.AF_INET, kind) as sock:
                if option is not None:
                    sock.setsockopt(socket.SOL_SOCKET, option, 1)
                if address == "198.18.0.1":  # everything is local here, but nothing leads there
                    sock.bind((address, port))
                else:
                    with pytest.raises(OSError, match="in use"):
                        sock.bind((address, port))

    sealed(act)


def test_the_sockets_leave_by_the_door_and_close_on_exec() -> None:
    def act() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        seal.close_off()
        made = seal.make(ours.detach(), [5432, 80])
        data, fds, _ = receive_fds(theirs, 4096, 200)
        assert json.loads(data) == {"sealed": True}
        names = [socket.socket(fileno=fd).getsockname()[:2] for fd in fds[:2]]
        assert names == [("127.0.0.1", limits.SEAL_TCP_PORT), ("127.0.0.1", limits.SEAL_DNS_PORT)]
        assert len(fds) == 6
        assert not any(os.get_inheritable(fd) for fd in made.descriptors())
        assert all(not sock.getblocking() for sock in made.sockets())

    namespaces.inside(act, NET)


def test_the_whole_of_ipv4_is_local_only_once() -> None:
    def act(_made: Seal) -> None:
        assert _number(lambda: netlink.exchange(netlink.ROUTE, seal._ROUTE, 1)) == errno.EEXIST

    sealed(act)


# -- the check ---------------------------------------------------------------------------------------------------------


def checked(prepare: Callable[[TestGateway], None], rules: Callable[[], None] = nft.load) -> None:
    """Seal a network, with a gateway in a thread of the same process, and check it."""

    def act() -> None:
        with TestGateway() as gateway:
            prepare(gateway)
            seal.close_off()
            nft.load = rules
            seal.make(os.dup(gateway.door), [])
            check = seal.Check()
            check.finish()
            assert gateway.asked == ["denied.paddock"]
            assert gateway.connections == [("192.0.2.1", 9)]

    namespaces.inside(act, NET)


def _set(name: str, value: object) -> Callable[[TestGateway], None]:
    return lambda gateway: setattr(gateway, name, value)


def test_a_gateway_that_refuses_what_it_must_is_a_seal() -> None:
    checked(_set("silent", False))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("refusal", "198.18.1.1", "not answered with the refusal address"),
        ("direct", b"welcome", "direct connection was let out"),
        ("silent", True, "the gateway does not answer"),
    ],
)
def test_a_gateway_that_does_not_is_none(name: str, value: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEAL_CHECK_S", 0.3)
    with pytest.raises(pytest.fail.Exception, match=said):
        checked(_set(name, value))


def test_a_gateway_that_ends_a_direct_connection_without_a_word_is_a_seal() -> None:
    checked(_set("direct", b""))


def test_a_network_without_its_rules_is_no_seal() -> None:
    with pytest.raises(pytest.fail.Exception, match="a datagram was let out"):
        checked(_set("silent", False), rules=lambda: None)


QUERY = b"ab" + struct.pack(">HHHHH", 0x0100, 1, 0, 0, 0) + seal._DENIED_NAME + b"\0\1\0\1"
RECORD = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + bytes([198, 18, 0, 2])


def answer(
    flags: int = 0x8180, counts: tuple[int, int] = (1, 1), record: bytes = RECORD, question: bytes = QUERY[12:]
) -> bytes:
    return b"ab" + struct.pack(">HHHHH", flags, *counts, 0, 0) + question + record


def test_the_refusal_is_known_by_its_answer() -> None:
    assert seal.is_refusal(QUERY, answer())
    assert seal.is_refusal(QUERY, answer(record=seal._DENIED_NAME + RECORD[2:]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        QUERY,
        b"cd" + answer()[2:],
        answer(flags=0x0180),
        answer(flags=0x8183),
        answer(counts=(1, 0)),
        answer(counts=(1, 2)),
        answer(counts=(0, 1)),
        answer(question=QUERY[12:].replace(b"denied", b"permit")),
        answer(record=RECORD[:-1] + b"\3"),
        answer(record=RECORD[:-1]),
        answer(record=b"\xc0\x0d" + RECORD[2:]),
        answer(record=RECORD.replace(b"\0\1\0\1", b"\0\x1c\0\1")),
        answer(record=b""),
    ],
)
def test_what_is_no_refusal_is_not_taken_for_one(data: bytes) -> None:
    assert not seal.is_refusal(QUERY, data)


@given(st.binary(max_size=80))
def test_no_bytes_break_the_check(data: bytes) -> None:
    assert not seal.is_refusal(QUERY, data)
    assert seal.is_refusal(QUERY, answer(record=data)) == (data[:6] == RECORD[:6] and data[10:16] == RECORD[10:16])

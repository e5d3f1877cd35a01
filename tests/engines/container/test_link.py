"""A link: from the box's end everything leads to the gateway of the sealed one, or is refused at once."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.engines.container import link
from paddock.engines.process import kernel, nft, seal
from tests.support import namespaces
from tests.support.gateway import TestGateway, original_destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.guest.door import Seal

NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET


def linked(act: Callable[[Seal], None]) -> None:
    """Run `act` at the box's end of a link whose door leads nowhere."""

    def inside() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            seal.close_off()
            link.Check = lambda: None  # type: ignore[assignment,misc,return-value]  # its attempts would come first
            made, box, _ = link.make(ours.detach())
            kernel.join(box, kernel.CLONE_NEWNET)
            act(made)

    namespaces.inside(inside, NET)


def _refusal(sock: socket.socket) -> int:
    """How the kernel says that nothing came of what was sent."""
    sock.settimeout(5)
    with pytest.raises(OSError, match=r".") as found:
        sock.recv(1)
    return found.value.errno or 0


@pytest.mark.parametrize("address", ["198.18.0.1", "1.1.1.1", "169.254.169.254", "10.0.0.1", link.OURS])
def test_tcp_to_anywhere_ends_at_the_gateways_listener(address: str) -> None:
    def act(made: Seal) -> None:
        with socket.create_connection((address, 443), 5):
            made.tcp.settimeout(5)
            with made.tcp.accept()[0] as peer:
                assert original_destination(peer) == (address, 443)

    linked(act)


@pytest.mark.parametrize("address", ["198.18.0.1", "8.8.8.8", link.OURS])
def test_a_question_for_a_name_ends_at_the_gateways_socket_and_its_answer_comes_back(address: str) -> None:
    def act(made: Seal) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.connect((address, 53))
            sock.send(b"question")
            made.udp.settimeout(5)
            data, peer = made.udp.recvfrom(100)
            made.udp.sendto(data[::-1], peer)
            assert sock.recv(100) == b"noitseuq"

    linked(act)


@pytest.mark.parametrize("port", [1, 54, 123, 443, limits.SEAL_DNS_PORT])
def test_other_datagrams_are_refused_at_once(port: int) -> None:
    def act(_made: Seal) -> None:
        for address in ("198.18.0.1", "1.1.1.1", link.OURS):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.connect((address, port))
                sock.send(b"x")
                assert _refusal(sock) == errno.ECONNREFUSED

    linked(act)


def test_whoever_comes_with_another_address_is_not_heard() -> None:
    def act(made: Seal) -> None:
        link._bring_up("eth0:1", "169.254.9.9")
        with socket.socket() as sock:
            sock.settimeout(0.3)
            sock.bind(("169.254.9.9", 0))
            with pytest.raises(TimeoutError):
                sock.connect(("198.18.0.1", 80))
        with pytest.raises(BlockingIOError):
            made.tcp.accept()
        socket.create_connection(("198.18.0.1", 80), 5).close()
        made.tcp.accept()[0].close()

    linked(act)


def test_ipv6_leads_nowhere() -> None:
    def act(_made: Seal) -> None:
        with socket.socket(socket.AF_INET6) as sock, pytest.raises(OSError, match="unreachable") as found:
            sock.connect(("2606:4700::1111", 443))
        assert found.value.errno == errno.ENETUNREACH

    linked(act)


def checked(prepare: Callable[[TestGateway], None], rules: Callable[[], None] = nft.load_link) -> None:
    """Seal and link a network, with a gateway in a thread of the same process, and check it."""

    def act() -> None:
        with TestGateway() as gateway:
            prepare(gateway)
            seal.close_off()
            nft.load_link = rules
            _, _, check = link.make(os.dup(gateway.door))
            check.finish()
            assert gateway.asked == ["denied.paddock"]
            assert gateway.connections == [("192.0.2.1", 9)]

    namespaces.inside(act, NET)


def test_a_gateway_that_refuses_what_it_must_is_a_seal() -> None:
    checked(lambda _gateway: None)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("refusal", "198.18.1.1", "not answered with the refusal address"),
        ("direct", b"welcome", "direct connection was let out"),
        ("silent", True, "the gateway does not answer"),
    ],
)
def test_a_gateway_that_does_not_is_none(name: str, value: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEAL_CHECK_S", 0.3 if name == "silent" else 5.0)
    with pytest.raises(pytest.fail.Exception, match=said):
        checked(lambda gateway: setattr(gateway, name, value))


def test_a_link_without_its_rules_is_no_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEAL_CHECK_S", 0.3)
    with pytest.raises(pytest.fail.Exception, match=r"refused|does not answer"):
        checked(lambda _gateway: None, rules=lambda: None)

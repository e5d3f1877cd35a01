from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.gateway import dial as dialling
from paddock.gateway.dial import Checked, check, check_name, dial
from paddock.policy import Action, Default, Evaluator, Host, Layer, OnDeny, Policy, Rule, Source, SourceKind, Verdict
from tests.style.source import SRC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.policy import Address

NAME = Host.parse("www.test")
SOURCE = Source(SourceKind.FLAG, "--allow-host")


def allowing(*patterns: str) -> Evaluator:
    rules = tuple(Rule(Action.ALLOW, pattern, SOURCE) for pattern in patterns)
    return Evaluator(Policy((Layer("user", Default.DENY, rules),), OnDeny.DENY))


OPEN = allowing("www.test", "127.0.0.0/8", "::1")


def checked(port: int, *addresses: str) -> Checked:
    found = check(OPEN, NAME, port, map(ip_address, addresses))
    assert isinstance(found, Checked)
    return found


@contextlib.contextmanager
def listening(address: str = "127.0.0.1", port: int = 0) -> Iterator[socket.socket]:
    with socket.create_server((address, port)) as server:
        yield server


@contextlib.contextmanager
def deaf(address: str, port: int = 0) -> Iterator[int]:
    """A port that neither accepts nor refuses: its queue is full, and further attempts are dropped."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((address, port))
        server.listen(0)
        port = server.getsockname()[1]
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((address, port))
        yield port


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# -- what may be dialled -----------------------------------------------------------------------------------------------
def test_nobody_makes_a_destination_but_check() -> None:
    with pytest.raises(TypeError):
        Checked(object(), NAME, 443, (IPv4Address("8.8.8.8"),))


def test_each_address_is_judged() -> None:
    mixed = ["8.8.8.8", "10.0.0.1", "2606:4700::1111", "::ffff:127.0.0.1", "64:ff9b::a00:1", "169.254.169.254"]
    found = check(allowing("www.test"), NAME, 443, map(ip_address, mixed))
    assert isinstance(found, Checked)
    assert repr(found) == "<Checked www.test:443 at 8.8.8.8, 2606:4700::1111>"


def test_when_none_may_be_dialled_the_verdict_says_why() -> None:
    found = check(allowing("www.test"), NAME, 443, [IPv4Address("10.0.0.1"), IPv4Address("127.0.0.1")])
    assert isinstance(found, Verdict)
    assert not found.allowed
    assert "10.0.0.1" in found.reason or "10.0.0.0" in found.reason


def test_a_denied_name_is_not_dialled_wherever_it_leads() -> None:
    assert isinstance(check(allowing("other.test"), NAME, 443, [IPv4Address("8.8.8.8")]), Verdict)
    assert isinstance(check_name(allowing("other.test"), NAME, 443), Verdict)


def test_no_address_is_no_destination() -> None:
    with pytest.raises(Unavailable) as caught:
        check(OPEN, NAME, 443, [])
    assert caught.value.code == "resolve"


def test_a_name_without_addresses_can_only_be_asked_for_upstream() -> None:
    found = check_name(OPEN, NAME, 443)
    assert isinstance(found, Checked)
    with pytest.raises(Unavailable):
        asyncio.run(dial(found))


# -- dialling ----------------------------------------------------------------------------------------------------------
def test_the_checked_address_is_dialled() -> None:
    async def run(port: int) -> None:
        with await dial(checked(port, "127.0.0.1")) as sock:
            assert sock.getpeername() == ("127.0.0.1", port)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not sock.getblocking()
            assert not sock.get_inheritable()

    with listening() as server:
        asyncio.run(run(port_of(server)))


def test_only_checked_addresses_are_connected_to() -> None:
    """The oracle: the address that policy dropped answers as well, and before the others."""
    policy = allowing("www.test", "127.0.0.2/32")

    async def run(port: int) -> None:
        found = check(policy, NAME, port, [IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")])
        assert isinstance(found, Checked)
        with await dial(found) as sock:
            assert sock.getpeername()[0] == "127.0.0.2"

    with listening("127.0.0.1") as wrong, listening("127.0.0.2", port_of(wrong)):
        with socket.create_connection(wrong.getsockname()):
            wrong.accept()[0].close()
        asyncio.run(run(port_of(wrong)))
        wrong.setblocking(False)
        with pytest.raises(BlockingIOError):
            wrong.accept()


def test_the_next_address_is_tried_when_one_refuses() -> None:
    async def run(port: int) -> None:
        with await dial(checked(port, "127.0.0.3", "127.0.0.4", "127.0.0.1")) as sock:
            assert sock.getpeername()[0] == "127.0.0.1"

    with listening() as server:
        asyncio.run(run(port_of(server)))


def test_the_next_address_is_tried_beside_one_that_does_not_answer() -> None:
    async def run(port: int) -> None:
        before = descriptors()
        with await dial(checked(port, "127.0.0.2", "127.0.0.1")) as sock:
            assert sock.getpeername()[0] == "127.0.0.1"
        assert descriptors() == before

    with deaf("127.0.0.2") as port, listening("127.0.0.1", port):
        asyncio.run(run(port))


def failure(found: Checked, timeout_s: float = 5.0) -> Unavailable:
    async def run() -> Unavailable:
        before = descriptors()
        with pytest.raises(Unavailable) as caught:
            await dial(found, timeout_s)
        assert descriptors() == before
        return caught.value

    return asyncio.run(run())


def test_a_refused_connection_says_so() -> None:
    with listening() as server:
        port = port_of(server)
    error = failure(checked(port, "127.0.0.1", "127.0.0.2"))
    assert (error.code, error.message) == ("refused", "cannot connect to www.test: Connection refused")


def test_nobody_is_waited_for_for_ever() -> None:
    with deaf("127.0.0.2") as port:
        error = failure(checked(port, "127.0.0.2"), 0.2)
    assert (error.code, error.message) == ("timeout", "www.test did not answer in 0.2 seconds")


def test_an_address_without_a_way_costs_no_time() -> None:
    async def run(port: int) -> None:
        nowhere = IPv4Address("255.255.255.255")
        with await dialling.dial_proxy([nowhere, IPv4Address("127.0.0.1")], port) as sock:
            assert sock.getpeername()[0] == "127.0.0.1"
        with pytest.raises(Unavailable, match="the user's proxy") as caught:
            await dialling.dial_proxy([nowhere], port)
        assert caught.value.code in {"unreachable", "dial"}

    with listening() as server:
        asyncio.run(run(port_of(server)))


def test_want_of_descriptors_is_unavailable() -> None:
    async def run(port: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
        try:
            with pytest.raises(Unavailable, match="Too many open files") as caught:
                await dial(checked(port, "127.0.0.1", "127.0.0.2"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert caught.value.code == "dial"

    with listening() as server:
        asyncio.run(run(port_of(server)))


def test_a_dial_that_is_given_up_leaves_nothing_behind() -> None:
    async def run(port: int) -> None:
        before = descriptors()
        task = asyncio.create_task(dial(checked(port, "127.0.0.2", "127.0.0.3")))
        await asyncio.sleep(0)
        assert descriptors() == before + 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descriptors() == before

    with deaf("127.0.0.2") as port:
        asyncio.run(run(port))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_race_closes_what_it_did_not_hand_out(when: str) -> None:
    async def run(port: int) -> None:
        before = descriptors()
        race = dialling._Race([(IPv4Address("127.0.0.1"), port)])
        race._next()
        if when == "after":
            await race._done
        race.close()
        assert descriptors() == before
        assert repr(race) == "<Race 0 running, 0 to come>"

    with listening() as server:
        asyncio.run(run(port_of(server)))


def test_families_take_turns() -> None:
    six: list[Address] = [IPv6Address(n) for n in (1, 2, 3)]
    four: list[Address] = [IPv4Address(n) for n in (1, 2)]
    turns = dialling._interleaved([(address, 1) for address in [*four, *six]])
    assert [address for address, _ in turns] == [six[0], four[0], six[1], four[1], six[2]]


def test_a_nameserver_hears_from_us_alone() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        with dialling.nameserver_socket(IPv4Address("127.0.0.1"), port_of(server)) as sock:
            assert sock.getpeername() == server.getsockname()
            assert not sock.getblocking()


def test_no_other_file_of_the_gateway_opens_a_connection() -> None:
    opens = re.compile(r"(?:create_connection|open_connection|sock_connect|connect_ex|getaddrinfo|gethostby\w+)\(")
    names = [path.name for path in (SRC / "paddock/gateway").glob("*.py") if opens.search(path.read_text())]
    assert [name for name in names if name != "dial.py"] == []
    assert opens.search((SRC / "paddock/gateway/dial.py").read_text())

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paddock.errors import Unavailable
from paddock.gateway.names import Names
from paddock.limits import NAME_COOL_DOWN_S, NAMES_PER_BOX, SYNTHETIC_FIRST, SYNTHETIC_LAST
from paddock.policy import Host


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def host(n: int) -> Host:
    return Host.parse(f"n{n}.test")


def test_a_name_keeps_its_address_and_the_address_leads_back() -> None:
    names = Names()
    address = names.address_of(host(1))
    assert names.address_of(host(1)) == address
    assert names.host_of(address) == host(1)
    assert names.address_of(host(2)) != address
    assert IPv4Address(SYNTHETIC_FIRST) <= address <= IPv4Address(SYNTHETIC_LAST)
    assert repr(names) == f"<Names 2/{NAMES_PER_BOX}, 0 cooling>"


def test_an_address_nobody_was_given_has_no_name() -> None:
    names = Names()
    address = names.address_of(host(1))
    assert names.host_of(address + 1) is None
    assert names.host_of(IPv4Address("192.0.2.1")) is None
    names.hold(address + 1)
    names.release(address + 1)


def test_the_addresses_of_two_tables_differ() -> None:
    # After a restart of the gateway an old answer must not lead to another name.
    assert len({Names().address_of(host(1)) for _ in range(50)}) > 10


def test_the_name_unused_for_longest_makes_room() -> None:
    names = Names(3)
    first, second, third = (names.address_of(host(n)) for n in (1, 2, 3))
    names.address_of(host(1))  # asked for again
    assert names.host_of(second) == host(2)  # connected to
    names.address_of(host(4))
    assert names.host_of(third) is None
    assert names.host_of(first) == host(1)
    assert len(names) == 3


def test_a_name_in_use_is_kept() -> None:
    names = Names(2)
    held = names.address_of(host(1))
    names.hold(held)
    names.hold(held)
    for n in range(2, 4):
        names.address_of(host(n))
    assert names.host_of(held) == host(1)
    names.release(held)
    names.hold(names.address_of(host(3)))
    with pytest.raises(Unavailable, match="in use") as caught:
        names.address_of(host(9))
    assert caught.value.code == "names"
    names.release(held)
    names.address_of(host(9))
    assert names.host_of(held) is None


def test_an_address_rests_before_another_name_gets_it() -> None:
    clock = Clock()
    names = Names(2, clock)
    first = names.address_of(host(1))
    names.address_of(host(2))
    names.address_of(host(3))
    names.address_of(host(4))
    clock.now += NAME_COOL_DOWN_S - 1
    with pytest.raises(Unavailable, match="short time"):
        names.address_of(host(5))
    clock.now += 1
    assert names.address_of(host(5)) == first
    assert names.host_of(first) == host(5)


def test_a_flood_of_names_is_bounded() -> None:  # DNS-02
    names = Names(100, Clock())
    for n in range(200):
        names.address_of(host(n))
    for n in range(200, 300):
        with pytest.raises(Unavailable):
            names.address_of(host(n))
    assert len(names) <= 100


class Table(RuleBasedStateMachine):
    """Whatever happens: two names never share an address, and what is held or was just given keeps its meaning."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.names = Names(4, self.clock)
        self.given: dict[IPv4Address, tuple[str, float]] = {}
        self.held: list[tuple[IPv4Address, str]] = []

    @rule(n=st.integers(0, 12))
    def ask(self, n: int) -> None:
        try:
            address = self.names.address_of(host(n))
        except Unavailable:
            return
        before = self.given.get(address)
        if before is not None and before[0] != host(n).text:
            assert self.clock.now - before[1] >= NAME_COOL_DOWN_S
        self.given[address] = (host(n).text, self.clock.now)

    @rule(n=st.integers(0, 20))
    def connect(self, n: int) -> None:
        known = list(self.given)
        if known:
            address = known[n % len(known)]
            found = self.names.host_of(address)
            if found is not None:
                self.names.hold(address)
                self.held.append((address, found.text))

    @rule()
    def end(self) -> None:
        if self.held:
            self.names.release(self.held.pop(0)[0])

    @rule(seconds=st.sampled_from([1.0, 30.0, NAME_COOL_DOWN_S]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def held_addresses_keep_their_names(self) -> None:
        for address, name in self.held:
            found = self.names.host_of(address)
            assert found is not None
            assert found.text == name

    @invariant()
    def the_table_is_bounded(self) -> None:
        assert len(self.names) <= 4


Table.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestTable = Table.TestCase

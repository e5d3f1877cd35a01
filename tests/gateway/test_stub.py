from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.dns import AAAA, A, Query, parse_query
from paddock.gateway.stub import Answer, question, read_answer
from paddock.limits import RESOLVE_ADDRESSES_MAX
from tests.support.nameserver import NXDOMAIN, SERVFAIL, TC, Question, Record, address, alias, read

NAME = "www.example.com"
ASKED = read(question(7, NAME, A), 1, tcp=False)


def answered(data: bytes) -> Answer | None:
    return read_answer(data, 7, NAME, A)


def found(*records: Record) -> tuple[list[str], int] | None:
    answer = answered(ASKED.answer(records))
    return None if answer is None else ([str(one) for one in answer.addresses], answer.ttl_s)


def test_a_question_is_one_we_would_answer() -> None:
    query = parse_query(question(7, NAME, AAAA))
    assert isinstance(query, Query)
    assert query.host is not None
    assert (query.id, query.host.text, query.qtype) == (7, NAME, AAAA)


@pytest.mark.parametrize(
    ("records", "addresses", "ttl_s"),
    [
        ([], [], 0),
        ([address(NAME, "192.0.2.1", 9)], ["192.0.2.1"], 9),
        ([address(NAME, "192.0.2.1", 9), address(NAME, "192.0.2.2", 3)], ["192.0.2.1", "192.0.2.2"], 3),
        ([address(NAME, "192.0.2.1")] * 2, ["192.0.2.1"], 60),
        ([address("WWW.Example.COM", "192.0.2.1")], ["192.0.2.1"], 60),
        ([address(NAME, "192.0.2.1", 1 << 31)], ["192.0.2.1"], 0),
        ([alias(NAME, "a.test", 5), address("a.test", "192.0.2.1", 9)], ["192.0.2.1"], 5),
        (
            [address("b.test", "192.0.2.1", 2), alias("a.test", "b.test"), alias(NAME, "a.test")],
            ["192.0.2.1"],
            2,
        ),
        ([alias(NAME, "a.test")], [], 0),
        # Nobody asked for these.
        ([address("evil.test", "192.0.2.66")], [], 0),
        ([address(NAME, "2001:db8::1")], [], 0),
        ([address(NAME, "192.0.2.1"), address("evil.test", "192.0.2.66")], ["192.0.2.1"], 60),
        ([(NAME, 39, 60, b"\x01a\0"), (NAME, 16, 60, b"\x01a")], [], 0),
    ],
)
def test_the_addresses_at_the_end_of_the_chain_are_the_answer(
    records: list[Record], addresses: list[str], ttl_s: int
) -> None:
    assert found(*records) == (addresses, ttl_s)


@pytest.mark.parametrize(
    "records",
    [
        [alias(NAME, NAME)],
        [alias(NAME, "a.test"), alias("a.test", NAME)],
        [alias(NAME if n == 0 else f"a{n}.test", f"a{n + 1}.test") for n in range(40)],
    ],
)
def test_a_chain_without_end_is_a_failure(records: list[Record]) -> None:  # DNS-05
    answer = answered(ASKED.answer(records))
    assert answer is not None
    assert (answer.rcode, answer.addresses) == (SERVFAIL, ())


def test_only_so_many_addresses_are_kept() -> None:
    many = found(*[address(NAME, f"192.0.2.{n}") for n in range(200)])
    assert many is not None
    assert len(many[0]) == RESOLVE_ADDRESSES_MAX


@pytest.mark.parametrize(("rcode", "flags", "truncated"), [(NXDOMAIN, 0, False), (SERVFAIL, 0, False), (0, TC, True)])
def test_what_the_server_says_of_itself(rcode: int, flags: int, truncated: bool) -> None:
    assert answered(ASKED.answer([], rcode, flags)) == Answer(rcode=rcode, truncated=truncated)


def other(name: str, qtype: int) -> Question:
    return read(question(7, name, qtype), 1, tcp=False)


GOOD = ASKED.answer([address(NAME, "192.0.2.1")])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:11],
        ASKED.data,  # our own question
        ASKED.answer([address(NAME, "192.0.2.1")], ident=1),
        other("evil.test", A).answer([address(NAME, "192.0.2.1")]),
        other(NAME, AAAA).answer([address(NAME, "192.0.2.1")]),
        GOOD[:4] + b"\0\0" + GOOD[6:],
        GOOD[:4] + b"\0\x02" + GOOD[6:],
        GOOD[:2] + b"\x91" + GOOD[3:],  # another opcode
        GOOD[:-1],
        GOOD[:-8],
        GOOD[:6] + b"\0\x02" + GOOD[8:],  # more answers than there are
        ASKED.answer([(NAME, A, 60, b"\x01")]),
        ASKED.answer([(NAME, A, 60, bytes(16))]),
        ASKED.answer([(NAME, 5, 60, b"\x01a\0x")]),
        ASKED.answer([(NAME, 5, 60, b"\x01a")]),
        ASKED.answer([(NAME, 5, 60, b"\x01.\0")]),
        ASKED.answer([(NAME, 5, 60, b"\xc0")]),
        ASKED.answer([(NAME, 5, 60, b"\xff\xff")]),
        ASKED.answer([(NAME, 5, 60, b"\x40a")]),
        ASKED.answer([(NAME, 5, 60, (b"\x3f" + b"a" * 63) * 4 + b"\0")]),
    ],
)
def test_anything_else_is_no_answer(data: bytes) -> None:
    assert answered(GOOD) is not None
    assert answered(data) is None


def test_pointers_lead_backwards_and_come_to_an_end() -> None:
    base = len(ASKED.data)
    record = struct.pack("!HHIH", A, 1, 60, 4) + ipaddress.IPv4Address("192.0.2.1").packed
    good = struct.pack("!6H", 7, 0x8180, 1, 1, 0, 0) + ASKED.data[12:] + b"\xc0\x0c" + record
    answer = answered(good)
    assert answer is not None
    assert len(answer.addresses) == 1
    for target in (base, base + 1, base + 200):  # itself, into itself, beyond the end
        pointer = (0xC000 | target).to_bytes(2)
        assert answered(good[:base] + pointer + good[base + 2 :]) is None


MUTATED = st.builds(
    lambda base, at, new: base[: at % len(base)] + new + base[at % len(base) + len(new) :],
    st.sampled_from([GOOD, ASKED.answer([alias(NAME, "a.test"), address("a.test", "192.0.2.1")])]),
    st.integers(0, 120),
    st.binary(min_size=1, max_size=4),
)


@given(MUTATED | st.builds(bytes.__add__, st.just(GOOD[:35]), st.binary()) | st.binary())
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    answer = answered(data)
    assert answer is None or len(answer.addresses) <= RESOLVE_ADDRESSES_MAX

"""Names are answered from the policy alone, and the same question gets the same kind of answer whoever asks."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway import dns
from paddock.gateway.lookup import Lookup
from paddock.gateway.names import Names
from paddock.limits import GATEWAY_ADDRESS, NAME_TTL_DEFAULT, REFUSAL_ADDRESS
from paddock.policy import Evaluator, Host
from tests.support.scene import policy


def made(*allowed: str, asks: bool = False) -> tuple[Lookup, list[str]]:
    denied: list[str] = []
    lookup = Lookup(Names(), Evaluator(policy(*allowed)), lambda host: denied.append(host.text))
    lookup.asks = asks
    return lookup, denied


def question(name: str, qtype: int = dns.A, qclass: int = dns.IN) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\0" + struct.pack(">HH", qtype, qclass)


def address(answer: bytes) -> str | None:
    return str(IPv4Address(answer[-4:])) if answer[6:8] == b"\0\1" else None


def code(answer: bytes) -> int:
    return answer[3] & 15


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gateway.paddock", GATEWAY_ADDRESS),
        ("host.docker.internal", GATEWAY_ADDRESS),
        ("localhost", "127.0.0.1"),
        ("denied.paddock", REFUSAL_ADDRESS),
        ("other.paddock", REFUSAL_ADDRESS),
        ("denied.test", REFUSAL_ADDRESS),
        ("DENIED.test", REFUSAL_ADDRESS),
    ],
)
def test_a_name_means(name: str, expected: str) -> None:
    lookup, _ = made("allowed.test", "*:443")
    lookup.evaluator = Evaluator(policy("allowed.test"))
    assert address(lookup.answer(question(name))) == expected


def test_a_permitted_name_has_an_address_of_its_own_and_keeps_it() -> None:
    lookup, denied = made("allowed.test", "*.wild.test:443")
    first = address(lookup.answer(question("allowed.test")))
    assert first is not None
    assert first.startswith(("198.18.", "198.19."))
    assert first not in {GATEWAY_ADDRESS, REFUSAL_ADDRESS}
    assert address(lookup.answer(question("Allowed.Test"))) == first
    assert address(lookup.answer(question("a.wild.test"))) not in {first, REFUSAL_ADDRESS}
    assert denied == []


def test_the_answer_may_be_remembered_for_a_moment_only() -> None:
    lookup, _ = made("allowed.test")
    (ttl,) = struct.unpack(">I", lookup.answer(question("allowed.test"))[-10:-6])
    assert ttl == NAME_TTL_DEFAULT


@pytest.mark.parametrize("name", ["allowed.test", "denied.test"])
def test_there_is_no_ipv6_in_here(name: str) -> None:
    lookup, _ = made("allowed.test")
    answer = lookup.answer(question(name, dns.AAAA))
    assert (code(answer), address(answer)) == (dns.Rcode.NOERROR, None)


@pytest.mark.parametrize("qtype", [2, 5, 6, 12, 15, 16, 33, 64, 65, 251, 252, 255])
def test_other_types_are_refused(qtype: int) -> None:
    lookup, _ = made("allowed.test")
    assert code(lookup.answer(question("allowed.test", qtype))) == dns.Rcode.REFUSED


@pytest.mark.parametrize(("name", "qclass"), [("allowed.test", 3), ("127.0.0.1", 1), ("a..b", 1), ("x y", 1)])
def test_what_is_no_host_name_or_of_another_class_gets_no_address(name: str, qclass: int) -> None:
    lookup, _ = made("*")
    assert address(lookup.answer(question(name, qclass=qclass))) is None


def test_where_a_person_is_asked_every_name_has_an_address_except_those_of_ours() -> None:
    lookup, denied = made(asks=True)
    assert address(lookup.answer(question("new.test"))) != REFUSAL_ADDRESS
    assert address(lookup.answer(question("x.paddock"))) == REFUSAL_ADDRESS
    assert denied == ["new.test", "x.paddock"]


def test_more_names_than_the_table_holds_get_a_failure_and_no_wrong_address() -> None:
    lookup = Lookup(Names(capacity=4), Evaluator(policy("*")), lambda _host: None)
    answers = [lookup.answer(question(f"n{number}.test")) for number in range(50)]
    assert code(answers[-1]) == dns.Rcode.SERVFAIL
    assert lookup._names.host_of(IPv4Address(answers[0][-4:])) in {None, Host("n0.test")}


@given(st.binary(max_size=600))
def test_no_bytes_break_it_and_none_of_them_opens_anything(data: bytes) -> None:
    lookup, _ = made()
    answer = lookup.answer(data)
    assert address(answer) in {None, REFUSAL_ADDRESS, GATEWAY_ADDRESS, "127.0.0.1"}

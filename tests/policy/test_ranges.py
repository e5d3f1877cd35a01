from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.ranges import forms, is_loopback, reserved
from tests.support.properties import bounded, patient


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("10.0.0.1", "private"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "provider"),
        ("0.0.0.0", "this network"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("198.18.0.1", "benchmarks"),
        ("198.19.255.255", "benchmarks"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "not a global"),
        ("255.255.255.255", "not a global"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "not a global"),
        ("fc00::1", "private"),
        ("fdff::1", "private"),
        ("fe80::1", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2001::1", "not a global"),
        ("2001:10::1", "not a global"),
        ("2002:808:808::1", "not a global"),
        ("100::1", "discarded"),
        ("64:ff9b:1::1", "translated"),
        ("4000::1", "not a global"),
        ("8000::1", "not a global"),
        ("1::1", "not a global"),
    ],
)
def test_a_reserved_address_is_named(text: str, what: str) -> None:
    found = reserved(ipaddress.ip_address(text))
    assert found is not None
    assert what in found.what


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        "1.1.1.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.167.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "126.0.0.1",
        "128.0.0.1",
        "2606:4700::1111",
        "2a00::1",
        "64:ff9b::808:808",
    ],
)
def test_a_global_address_is_not_reserved(text: str) -> None:
    assert reserved(ipaddress.ip_address(text)) is None


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::127.0.0.1", "127.0.0.1"),
        ("64:ff9b::7f00:1", "127.0.0.1"),
        ("2002:7f00:1::", "127.0.0.1"),
        ("2002:a9fe:a9fe::1", "169.254.169.254"),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "10.0.0.1"),
        ("2001:0:a00:1::", "10.0.0.1"),
        ("2a00::5efe:a00:1", "10.0.0.1"),
        ("2a00::200:5efe:a00:1", "10.0.0.1"),
    ],
)
def test_an_ipv4_address_is_found_inside(text: str, inside: str) -> None:
    assert ipaddress.ip_address(inside) in forms(ipaddress.ip_address(text))


@bounded
@patient
@given(st.ip_addresses())
def test_what_python_knows_as_closed_is_closed_here(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    closed = any(reserved(form) for form in forms(address))
    known = (
        address.is_private
        or address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
    )
    if known and not closed:
        # Mapped and translated addresses are what they carry.
        assert str(address).startswith(("64:ff9b:", "::ffff:"))
    assert forms(address)[0] == address or forms(address) == (getattr(address, "ipv4_mapped", None),)


@bounded
@patient
@given(st.ip_addresses(v=4))
def test_every_way_to_carry_a_closed_address_is_closed(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    carriers = [
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
        ipaddress.IPv6Address(0x2A00 << 112 | 0x5EFE << 32 | number),
    ]
    for carrier in carriers:
        assert any(reserved(form) for form in forms(carrier)) == (reserved(address) is not None)


def test_loopback_is_known_by_itself() -> None:
    assert is_loopback(ipaddress.ip_address("127.9.9.9"))
    assert is_loopback(ipaddress.ip_address("::1"))
    assert not is_loopback(ipaddress.ip_address("10.0.0.1"))


def test_a_range_holds_what_lies_wholly_inside() -> None:
    private = reserved(ipaddress.ip_address("10.0.0.1"))
    assert private is not None
    assert private.holds(ipaddress.ip_network("10.0.0.0/8"))
    assert private.holds(ipaddress.ip_network("10.1.0.0/16"))
    assert not private.holds(ipaddress.ip_network("10.0.0.0/7", strict=False))
    assert not private.holds(ipaddress.ip_network("::/0"))
    unique = reserved(ipaddress.ip_address("fd00::1"))
    assert unique is not None
    assert unique.holds(ipaddress.ip_network("fd00::/8"))
    assert not unique.holds(ipaddress.ip_network("10.0.0.0/8"))

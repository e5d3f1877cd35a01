"""What the gateway is told of the host: read leniently, as the C library does, and bounded."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from paddock.runtime import hostfacts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("nameserver 192.0.2.1\n", ("192.0.2.1",)),
        ("# nameserver 192.0.2.9\nsearch example\nnameserver\t2001:DB8::1\n", ("2001:db8::1",)),
        ("nameserver not-an-address\nnameserver\nnameserver 192.0.2.1 trailing\n", ("192.0.2.1",)),
        ("".join(f"nameserver 192.0.2.{n}\n" for n in range(9)), ("192.0.2.0", "192.0.2.1", "192.0.2.2")),
        ("nameserver fe80::1%eth0\n", ("fe80::1%eth0",)),
    ],
)
def test_name_servers_are_read_as_the_library_reads_them(text: str, found: tuple[str, ...]) -> None:
    assert hostfacts.nameservers(text) == found


def test_hosts_have_all_their_addresses_in_lower_case() -> None:
    text = "127.0.0.1 localhost\n::1 localhost ip6\n10.0.0.1 DB.Example. db # comment c\nnonsense x\n10.0.0.1 db\n"
    assert hostfacts.names(text) == {
        "localhost": ("127.0.0.1", "::1"),
        "ip6": ("::1",),
        "db.example": ("10.0.0.1",),
        "db": ("10.0.0.1",),
    }


def test_a_huge_hosts_file_is_cut() -> None:
    text = "".join(f"10.0.0.1 h{n}\n" for n in range(hostfacts._HOSTS_MAX + 10))
    assert len(hostfacts.names(text)) == hostfacts._HOSTS_MAX


def test_the_hosts_own_addresses_come_from_the_kernel() -> None:
    found = hostfacts.addresses()
    assert "127.0.0.1" in found
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return  # no route: loopback is all there is
        assert probe.getsockname()[0] in found


@pytest.mark.parametrize(
    ("environ", "proxy", "no_proxy"),
    [
        ({}, "", ""),
        ({"HTTP_PROXY": "http://a:1"}, "http://a:1", ""),
        ({"HTTP_PROXY": "http://a:1", "https_proxy": "http://b:2"}, "http://b:2", ""),
        ({"ALL_PROXY": "socks5h://c:3", "NO_PROXY": "x", "no_proxy": "y"}, "socks5h://c:3", "y"),
        ({"HTTPS_PROXY": "", "NO_PROXY": "x"}, "", "x"),
    ],
)
def test_the_users_own_proxy_is_found_in_the_environment(
    tmp_path: Path, environ: dict[str, str], proxy: str, no_proxy: str
) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.53\n")
    facts = hostfacts.read(environ, str(tmp_path / "resolv.conf"), str(tmp_path / "missing"))
    assert (facts.proxy, facts.no_proxy, facts.nameservers, facts.hosts) == (proxy, no_proxy, ("192.0.2.53",), {})

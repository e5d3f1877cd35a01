"""Addresses that no name may lead to unasked, and the IPv4 addresses that IPv6 addresses carry inside.

The table follows the IANA special-purpose registries, not `ipaddress.is_global`, which changes between versions of
Python. The smallest range that holds an address is the one that names it, and a rule opens it only from within that
range: `0.0.0.0/0` does not open 10.0.0.0/8, and 169.254.0.0/16 does not open the metadata service.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.policy.host import Address

_METADATA = "the address of a metadata service"
_PRIVATE = "a private address"
_DOCUMENTATION = "an address for documentation"
_BENCHMARK = "an address for benchmarks"
_OTHER = "not a global address"

_TABLE: tuple[tuple[str, str], ...] = (
    ("169.254.169.254/32", _METADATA),
    ("169.254.170.2/32", _METADATA),
    ("100.100.100.200/32", _METADATA),
    ("168.63.129.16/32", _METADATA),
    ("192.0.0.192/32", _METADATA),
    ("fd00:ec2::254/128", _METADATA),
    ("0.0.0.0/8", "an address of this network"),
    ("10.0.0.0/8", _PRIVATE),
    ("100.64.0.0/10", "an address of a provider's network"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", _PRIVATE),
    ("192.0.0.0/24", _OTHER),
    ("192.0.2.0/24", _DOCUMENTATION),
    ("192.88.99.0/24", _OTHER),
    ("192.168.0.0/16", _PRIVATE),
    ("198.18.0.0/15", _BENCHMARK),
    ("198.51.100.0/24", _DOCUMENTATION),
    ("203.0.113.0/24", _DOCUMENTATION),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", _OTHER),
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("::/96", _OTHER),
    ("64:ff9b:1::/48", "a translated address of the local network"),
    ("100::/64", "a discarded address"),
    ("2001:db8::/32", _DOCUMENTATION),
    ("2001::/23", _OTHER),
    ("2002::/16", _OTHER),  # 6to4, whose relays are gone (RFC 7526)
    ("3fff::/20", _DOCUMENTATION),
    ("fc00::/7", _PRIVATE),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", _PRIVATE),
    ("ff00::/8", "a multicast address"),
    # Global unicast is 2000::/3 and nothing else (RFC 4291 2.4).
    ("::/3", _OTHER),
    ("4000::/2", _OTHER),
    ("8000::/1", _OTHER),
)
# The first bits of IPv6 addresses that carry an IPv4 address.
_MAPPED_96 = 0xFFFF  # ::ffff:0:0/96
_COMPATIBLE_96 = 0  # ::/96, but for :: and ::1
_NAT64_96 = 0x0064FF9B << 64  # 64:ff9b::/96, RFC 6052: judged by what it carries
_6TO4_16 = 0x2002  # 2002::/16
_TEREDO_32 = 0x20010000  # 2001::/32
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214, the third quarter of the address
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    network: IPv4Network | IPv6Network
    what: str

    def holds(self, network: IPv4Network | IPv6Network) -> bool:
        """Whether all of `network` lies inside."""
        if isinstance(network, IPv4Network):
            return isinstance(self.network, IPv4Network) and network.subnet_of(self.network)
        return isinstance(self.network, IPv6Network) and network.subnet_of(self.network)


def _compiled(version: int) -> tuple[tuple[int, int, Range], ...]:
    """(mask, network, range), the smallest range first."""
    ranges = [Range(network=ip_network(text), what=what) for text, what in _TABLE]
    ranges = sorted((one for one in ranges if one.network.version == version), key=lambda one: -one.network.prefixlen)
    return tuple((int(one.network.netmask), int(one.network.network_address), one) for one in ranges)


_V4, _V6 = _compiled(4), _compiled(6)


def reserved(address: Address) -> Range | None:
    """The range that keeps `address` closed, None for a global one. Looks at this form only, see `forms`."""
    number = int(address)
    if isinstance(address, IPv4Address):
        table = _V4
    elif number >> 32 == _NAT64_96:
        return None
    else:
        table = _V6
    for mask, network, found in table:
        if number & mask == network:
            return found
    return None


def forms(address: Address) -> tuple[Address, ...]:
    """`address` and every IPv4 address it may lead to; a mapped one is IPv4 and nothing else."""
    if isinstance(address, IPv4Address):
        return (address,)
    number = int(address)
    first = number >> 32
    if first == _MAPPED_96:
        return (IPv4Address(number & _LOW),)
    if first >> 80 == _6TO4_16:
        return address, IPv4Address(number >> 80 & _LOW)
    if first >> 64 == _TEREDO_32:
        return address, IPv4Address(number >> 64 & _LOW), IPv4Address(~number & _LOW)
    if first == _NAT64_96 or (first == _COMPATIBLE_96 and number > 1) or first & _LOW in _ISATAP:
        return address, IPv4Address(number & _LOW)
    return (address,)


def is_loopback(address: Address) -> bool:
    """127.0.0.0/8 and ::1, in their own form."""
    return address.is_loopback

"""What a rule speaks of: a name, the names below a name, an address, a range of addresses, or everything; with a port
or for all of them.

    example.com  example.com:443  *.example.com  *.example.com:443  *:443  *  localhost:5432
    192.0.2.1  192.0.2.1:80  2001:db8::1  [2001:db8::1]:80  10.0.0.0/8  10.0.0.0/8:5432  fd00::/8  [fd00::/8]:5432

`*.example.com` means names below example.com at any depth, not example.com itself. `localhost` is the host's own and is
opened port by port only; `127.0.0.1:5432` and `[::1]:5432` are other spellings of `localhost:5432`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from paddock.errors import UserError
from paddock.policy.host import Host, parse_port
from paddock.text import neutralise

Network = IPv4Network | IPv6Network

LOCALHOST = "localhost"
HOST_ALIAS = "host.docker.internal"  # the other name under which a box knows the host's loopback
OWN_ZONES = ("paddock", LOCALHOST)  # names below these never leave the host

_CIDR = re.compile(r"[0-9a-fA-F:.]{2,45}/(?:0|[1-9][0-9]{0,2})")
_LOOPBACK = frozenset({"127.0.0.1/32", "::1/128"})
_MAPPED = IPv6Network("::ffff:0:0/96")
_SHOWN_CHARS = 80
_TEXT_CHARS = 320  # a name, brackets, a prefix length and a port


@dataclass(frozen=True, slots=True, init=False)
class Pattern:
    """A parsed pattern. Just one of `name` and `network` is set; neither means every host."""

    text: str
    name: str = field(compare=False)  # the name itself, or what a wildcard stands below
    wildcard: bool = field(compare=False)
    network: Network | None = field(compare=False)  # a single address is the range of one
    port: int = field(compare=False)  # 0 for all

    def __init__(self, text: str) -> None:
        try:
            head, port = _split(text)
            name, wildcard, network = _read(head)
        except UserError as error:
            raise _refused(text, error.hint) from error
        if port and network is not None and str(network) in _LOOPBACK:
            name, network = LOCALHOST, None
        if port == 0 and name == LOCALHOST:
            raise _refused(text, "localhost is opened port by port: write localhost:PORT")
        shown = _shown(name, wildcard=wildcard, network=network)
        values = {"name": name, "wildcard": wildcard, "network": network, "port": port}
        values["text"] = (f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}") if port else shown
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Raises UserError `bad-pattern`."""
        return cls(text)

    def __str__(self) -> str:
        return self.text

    def names(self, host: Host, port: int) -> bool:
        """Whether it speaks of this name and port, by name; no address is spoken of so."""
        if self.port not in {0, port} or host.address is not None or self.network is not None:
            return False
        if self.wildcard:
            return not self.name or host.text.endswith(f".{self.name}")
        return host.text == self.name

    def covers(self, other: Pattern) -> bool:
        """Whether every host and port that `other` speaks of is spoken of here too."""
        return self.port in {0, other.port} and self._spans(other)

    def meets(self, other: Pattern) -> bool:
        """Whether both speak of some host and port. Hosts of one hold those of the other, or they share none."""
        return (0 in {self.port, other.port} or self.port == other.port) and (self._spans(other) or other._spans(self))

    def _spans(self, other: Pattern) -> bool:
        """As covers, whatever the ports."""
        if self.network is not None:
            return _contains(self.network, other.network)
        if not self.name:
            return True
        if not self.wildcard:
            return self.name == other.name and not other.wildcard
        return other.name.endswith(f".{self.name}") or (other.wildcard and other.name == self.name)


def _split(text: str) -> tuple[str, int]:
    """The host part and the port."""
    if len(text) > _TEXT_CHARS:
        raise _refused(text, "it is too long")
    if text.startswith("["):
        head, closed, rest = text[1:].partition("]")
        if not closed or ":" not in head or (rest and not rest.startswith(":")):
            raise _refused(text, "brackets are for IPv6: [2001:db8::1]:443")
        return head, parse_port(rest[1:]) if rest else 0
    if text.count(":") == 1:
        head, _, port = text.partition(":")
        return head, parse_port(port)
    return text, 0


def _read(head: str) -> tuple[str, bool, Network | None]:
    if head == "*":
        return "", True, None
    if "/" in head:
        return "", False, _range(head)
    wildcard = head.startswith("*.")
    host = Host(head.removeprefix("*."))
    if host.address is not None:
        if wildcard:
            raise _refused(head, "an address has nothing below it: write a range such as 10.0.0.0/8")
        return "", False, ipaddress.ip_network(host.address)
    if host.text == HOST_ALIAS:
        raise _refused(head, "write localhost:PORT")
    if host.text.rpartition(".")[2] in OWN_ZONES and (wildcard or host.text != LOCALHOST):
        raise _refused(head, "names of the host and of the gateway are no matter of rules")
    return host.text, wildcard, None


def _range(head: str) -> Network:
    if not _CIDR.fullmatch(head):
        raise _refused(head, "write a range as 10.0.0.0/8 or fd00::/8")
    try:
        network = ipaddress.ip_network(head, strict=False)
    except ValueError:
        raise _refused(head, "write a range as 10.0.0.0/8 or fd00::/8") from None
    if network.network_address != ipaddress.ip_address(head.partition("/")[0]):
        raise _refused(head, f"did you mean {network}?")
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):  # the kernel sends those to IPv4
        mapped = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((mapped, network.prefixlen - 96))
    return network


def _shown(name: str, *, wildcard: bool, network: Network | None) -> str:
    if network is not None:
        single = network.prefixlen == network.max_prefixlen
        return str(network.network_address) if single else str(network)
    if not name:
        return "*"
    return f"*.{name}" if wildcard else name


def _contains(network: Network, other: Network | None) -> bool:
    if isinstance(network, IPv4Network):
        return isinstance(other, IPv4Network) and other.subnet_of(network)
    return isinstance(other, IPv6Network) and other.subnet_of(network)


def _refused(text: str, hint: str) -> UserError:
    return UserError(f"'{neutralise(text, _SHOWN_CHARS)}' is not a pattern", hint=hint, code="bad-pattern")

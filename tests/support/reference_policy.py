"""The evaluator once more, slow and plain: every rule is looked at, and the best of those that match is taken.

Written from docs/policy.md with nothing of the evaluator but the values, so that a mistake has to be made twice.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from paddock.policy.ranges import forms, reserved
from paddock.policy.rules import Action, Default, Layer, Policy, Rule, SourceKind

if TYPE_CHECKING:
    from paddock.policy.host import Address, Host

RANK = [SourceKind.ORGANISATION, SourceKind.FLAG, SourceKind.USER, SourceKind.PROJECT, SourceKind.PRESET]


def decide(policy: Policy, own: frozenset[Address], host: Host, port: int, address: Address | None = None) -> bool:
    address = address or host.address
    if address is not None:
        address = getattr(address, "ipv4_mapped", None) or address
    if not policy.layers or (host.address is not None and address != host.address):
        return False
    is_localhost = host.text in {"localhost", "host.docker.internal"}
    if not is_localhost and host.text.split(".")[-1] in {"localhost", "paddock"}:
        return False
    if is_localhost:
        if address is not None and not address.is_loopback:
            return False
        found = [best(layer, "localhost", None, port, addresses_only=False, every=False) for layer in policy.layers]
        return agreed(policy, found) and any(found)
    found = [best(layer, host.text, host.address, port, addresses_only=False) for layer in policy.layers]
    if not agreed(policy, found):
        return False
    return address is None or all(open_at(policy, own, form, port, carried=form != address) for form in forms(address))


def open_at(policy: Policy, own: frozenset[Address], address: Address, port: int, *, carried: bool) -> bool:
    found = [best(layer, "", address, port, addresses_only=True) for layer in policy.layers]
    if any(rule is not None and rule.action is Action.DENY for rule in found):
        return False
    mine = address in own and (carried or not address.is_loopback)
    if reserved(address) is None and not mine:
        return True
    if carried:
        return False
    opening = [rule if rule is not None and opens(rule, address, mine) else None for rule in found]
    return agreed(policy, opening) and any(opening)


def opens(rule: Rule, address: Address, mine: bool) -> bool:
    if rule.pattern.startswith("localhost:"):
        return True
    network = network_of(rule.pattern)
    assert network is not None
    closed = reserved(address)
    inside = closed is None or closed.network.supernet_of(network)  # type: ignore[arg-type]
    return inside and (not mine or network.num_addresses == 1)


def agreed(policy: Policy, found: list[Rule | None]) -> bool:
    for layer, rule in zip(policy.layers, found, strict=True):
        if rule is None and layer.default is Default.DENY:
            return False
        if rule is not None and rule.action is Action.DENY:
            return False
    return True


def best(
    layer: Layer, name: str, address: Address | None, port: int, *, addresses_only: bool, every: bool = True
) -> Rule | None:
    matching = []
    for rule in layer.rules:
        specific = match(rule.pattern, name, address, port)
        if specific is None or (specific[0] == 0 and (addresses_only or not every)):
            continue
        rank = (-RANK.index(rule.source.kind), rule.action is Action.DENY, rule.bypass)
        matching.append((specific, rank, rule))
    return max(matching, key=lambda one: one[:2])[2] if matching else None


def match(pattern: str, name: str, address: Address | None, port: int) -> tuple[int, bool] | None:
    """How specific `pattern` is for this target, None if it says nothing of it."""
    subject, wanted = split(pattern)
    if wanted not in {0, port}:
        return None
    network = network_of(pattern)
    if subject == "*":
        return 0, wanted != 0
    if network is not None:
        if address is None or network.version != address.version or address not in network:
            return None
        return 1 + network.prefixlen, wanted != 0
    if subject == "localhost" and address in {ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")}:
        return 1_000, True
    if address is not None:
        return None
    if subject.startswith("*."):
        return (len(subject), wanted != 0) if name.endswith(subject[1:]) else None
    return (1_000, wanted != 0) if name == subject else None


def split(pattern: str) -> tuple[str, int]:
    if pattern.startswith("["):
        subject, _, rest = pattern[1:].partition("]")
        return subject, int(rest[1:])
    if pattern.count(":") == 1:
        subject, _, rest = pattern.partition(":")
        return subject, int(rest)
    return pattern, 0


def network_of(pattern: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(split(pattern)[0])
    except ValueError:
        return None

"""Rules of a box, written as people say them."""

from __future__ import annotations

from paddock.model import Network, NetworkRule


def _rule(text: str) -> NetworkRule:
    """`allow example.com`, `bypass example.com`."""
    action, pattern = text.split()
    return NetworkRule(action="deny" if action == "deny" else "allow", pattern=pattern, bypass=action == "bypass")


def flags(*rules: str, **rest: object) -> Network:
    return Network(rules=tuple(map(_rule, rules)), **rest)  # type: ignore[arg-type]

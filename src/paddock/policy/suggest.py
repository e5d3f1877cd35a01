"""What was refused, turned into the narrowest rules that would have let it pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.policy import explain
from paddock.policy.host import Host
from paddock.policy.layering import ORGANISATION
from paddock.policy.rules import Action

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Iterable

    from paddock.policy.evaluator import Evaluator
    from paddock.policy.rules import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refusal as the log has it; `address` is where the name led, if it came to that."""

    host: str
    port: int
    address: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """`pattern` would allow it; empty if nothing should, and `why` says so."""

    pattern: str
    count: int
    why: str


def suggest(refused: Iterable[Refused], evaluator: Evaluator) -> tuple[Suggestion, ...]:
    """The most frequent first; what is allowed by now is left out, and so is what is no host."""
    found: dict[tuple[str, str], int] = {}
    for one in refused:
        try:
            host = Host(one.host)
            address = Host(one.address).address if one.address else None
        except UserError:
            continue
        verdict = _verdict(evaluator, host, one.port, address)
        if verdict.allowed:
            continue
        key = (_pattern(verdict, host, one.port), verdict.reason)
        found[key] = found.get(key, 0) + one.count
    suggestions = [Suggestion(pattern=key[0], count=count, why=key[1]) for key, count in found.items()]
    return tuple(sorted(suggestions, key=lambda one: (not one.pattern, -one.count, one.pattern, one.why)))


def _verdict(
    evaluator: Evaluator, host: Host, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> Verdict:
    return evaluator.decide(host, port) if address is None else evaluator.decide_address(host, port, address)


def _pattern(verdict: Verdict, host: Host, port: int) -> str:
    """Nothing for what somebody refused by name, or what the user cannot decide."""
    if verdict.layer == ORGANISATION or (verdict.rule is not None and verdict.rule.action is Action.DENY):
        return ""
    return explain.allow_pattern(host.text, port, verdict)

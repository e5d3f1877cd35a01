"""A box's own rules, as the flags of its user said them: checked, changed, and as one statement of its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.policy import Default, OnDeny, Pattern, Source, SourceKind
from paddock.policy.layering import Statement

if TYPE_CHECKING:
    from paddock.model import Network

_PRESET = "preset:"
_SOURCE = Source(SourceKind.FLAG, "command line")


def statement(network: Network) -> Statement:
    """What the flags say, with canonical patterns; UserError for a pattern or a preset that is none."""
    plain = [rule for rule in network.rules if not rule.bypass]
    return Statement(
        source=_SOURCE,
        default=Default(network.default) if network.default else None,
        on_deny=OnDeny(network.on_deny) if network.on_deny else None,
        presets=tuple(dict.fromkeys(network.presets)),
        allow=tuple(rule.pattern for rule in plain if rule.action == "allow"),
        deny=tuple(rule.pattern for rule in network.rules if rule.action == "deny"),
        bypass=tuple(rule.pattern for rule in network.rules if rule.bypass and rule.action == "allow"),
    )


def canonical(network: Network) -> Network:
    """The same network, checked and in the one spelling that is stored."""
    statement(network)
    rules = tuple(dict.fromkeys(replace(rule, pattern=Pattern(rule.pattern).text) for rule in network.rules))
    return replace(network, rules=rules, presets=tuple(dict.fromkeys(network.presets)))


def merge(network: Network, change: Network) -> Network:
    """`change` added to what is there: of two rules for one pattern the later counts."""
    change = canonical(change)
    patterns = {rule.pattern for rule in change.rules}
    return replace(
        network,
        default=change.default or network.default,
        on_deny=change.on_deny or network.on_deny,
        presets=tuple(dict.fromkeys((*network.presets, *change.presets))),
        rules=(*(rule for rule in network.rules if rule.pattern not in patterns), *change.rules),
    )


def without(network: Network, patterns: tuple[str, ...]) -> Network:
    """The network without the rules of these patterns, and without `preset:NAME`; UserError names what is not there."""
    presets = [text.removeprefix(_PRESET) for text in patterns if text.startswith(_PRESET)]
    gone = [Pattern(text).text for text in patterns if not text.startswith(_PRESET)]
    known = {rule.pattern for rule in network.rules}
    for missing in (*(f"{_PRESET}{name}" for name in {*presets} - {*network.presets}), *({*gone} - known)):
        raise no_rule(missing)
    return replace(
        network,
        rules=tuple(rule for rule in network.rules if rule.pattern not in gone),
        presets=tuple(name for name in network.presets if name not in presets),
    )


def no_rule(pattern: str) -> UserError:
    return UserError(f"there is no rule {pattern!r}", hint="`paddock policy show` lists the rules", code="no-rule")

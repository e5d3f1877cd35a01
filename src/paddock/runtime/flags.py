"""A box's own rules, as the flags of its user said them: checked, changed, and as one statement of its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from paddock.errors import UserError
from paddock.policy import Default, OnDeny, Pattern, Request, Source, SourceKind
from paddock.policy.layering import Statement
from paddock.policy.requests import is_request

if TYPE_CHECKING:
    from paddock.model import Network, NetworkRule

_PRESET = "preset:"
_SOURCE = Source(SourceKind.FLAG, "command line")


def statement(network: Network) -> Statement:
    """What the flags say, with canonical patterns; UserError for a pattern or a preset that is none."""
    hosts = [rule for rule in network.rules if not _is_about_requests(rule)]
    plain = [rule for rule in hosts if not rule.bypass]
    return Statement(
        source=_SOURCE,
        default=Default(network.default) if network.default else None,
        on_deny=OnDeny(network.on_deny) if network.on_deny else None,
        presets=tuple(dict.fromkeys(network.presets)),
        allow=tuple(rule.pattern for rule in plain if rule.action == "allow"),
        deny=tuple(rule.pattern for rule in hosts if rule.action == "deny"),
        bypass=tuple(rule.pattern for rule in hosts if rule.bypass and rule.action == "allow"),
        allow_requests=_requests(network, "allow"),
        deny_requests=_requests(network, "deny"),
    )


def request_of(rule: NetworkRule) -> Request | None:
    """What a rule says of requests; None for one about hosts. UserError for one that is neither."""
    if not _is_about_requests(rule):
        return None
    if rule.bypass:
        raise UserError(f"{rule.pattern} cannot be bypassed and looked into", code="bad-policy")
    return Request.of(rule.pattern, rule.methods, rule.path)


def _is_about_requests(rule: NetworkRule) -> bool:
    return bool(rule.methods or rule.path)


def _requests(network: Network, action: Literal["allow", "deny"]) -> tuple[str, ...]:
    found = ((rule, request_of(rule)) for rule in network.rules)
    return tuple(request.text for rule, request in found if request is not None and rule.action == action)


def canonical(network: Network) -> Network:
    """The same network, checked and in the one spelling that is stored."""
    statement(network)
    rules = tuple(dict.fromkeys(map(_canonical, network.rules)))
    return replace(network, rules=rules, presets=tuple(dict.fromkeys(network.presets)))


def _canonical(rule: NetworkRule) -> NetworkRule:
    request = request_of(rule)
    if request is None:
        return replace(rule, pattern=Pattern(rule.pattern).text)
    any_ = () if request.methods or request.path else ("*",)
    return replace(rule, pattern=request.pattern.text, methods=request.methods or any_, path=request.path)


def merge(network: Network, change: Network) -> Network:
    """`change` added to what is there: of two rules about the same the later counts."""
    change = canonical(change)
    spoken = {_about(rule) for rule in change.rules}
    # The host of a new rule about requests is to be looked into, and reached if requests to it are allowed.
    void = {(rule.pattern, "bypass") for rule in change.rules if _is_about_requests(rule)}
    void |= {(rule.pattern, "deny") for rule in change.rules if _is_about_requests(rule) and rule.action == "allow"}
    kept = [rule for rule in network.rules if _about(rule) not in spoken and _as_host(rule) not in void]
    merged = replace(
        network,
        default=change.default or network.default,
        on_deny=change.on_deny or network.on_deny,
        presets=tuple(dict.fromkeys((*network.presets, *change.presets))),
        rules=(*kept, *change.rules),
    )
    statement(merged)
    return merged


def _about(rule: NetworkRule) -> str:
    """What it speaks of: rules of which this is the same contradict each other."""
    request = request_of(rule)
    return request.text if request is not None else rule.pattern


def _as_host(rule: NetworkRule) -> tuple[str, str]:
    if _is_about_requests(rule):
        return "", ""
    return rule.pattern, "bypass" if rule.bypass else rule.action


def without(network: Network, patterns: tuple[str, ...]) -> Network:
    """The network without the rules of these patterns, those about requests included, without a rule about requests
    that is named as such, and without `preset:NAME`; UserError names what is not there."""
    presets = [text.removeprefix(_PRESET) for text in patterns if text.startswith(_PRESET)]
    words = [text for text in patterns if not text.startswith(_PRESET)]
    gone = [Request(text).text if is_request(text) else Pattern(text).text for text in words]
    known = {rule.pattern for rule in network.rules} | {_about(rule) for rule in network.rules}
    for missing in (*(f"{_PRESET}{name}" for name in {*presets} - {*network.presets}), *({*gone} - known)):
        raise no_rule(missing)
    return replace(
        network,
        rules=tuple(rule for rule in network.rules if rule.pattern not in gone and _about(rule) not in gone),
        presets=tuple(name for name in network.presets if name not in presets),
    )


def no_rule(pattern: str) -> UserError:
    return UserError(f"there is no rule {pattern!r}", hint="`paddock policy show` lists the rules", code="no-rule")

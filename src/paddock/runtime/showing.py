"""Policies and verdicts as they are shown to people and programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.policy import Request, RequestRule, explain
from paddock.reports import LayerInfo, RuleInfo, VerdictInfo

if TYPE_CHECKING:
    from paddock.policy import Layer, Rule, Verdict
    from paddock.policy.requests import HostRules
    from paddock.policy.target import Target

_ANYBODY = "BOX"  # in a command that is about no box


def layer_info(layer: Layer) -> LayerInfo:
    """Rules that stand only for those about requests are not shown beside them."""
    rules = [rule_info(rule) for rule in layer.rules if not rule.limited]
    rules += [rule_info(rule) for rule in layer.requests]
    return LayerInfo(name=layer.name, default=layer.default.value, rules=tuple(rules))


def rule_info(rule: Rule | RequestRule) -> RuleInfo:
    source = rule.source
    if isinstance(rule, RequestRule):
        request = Request(rule.request)
        return RuleInfo(
            action=rule.action.value,
            pattern=request.pattern.text,
            source=source.kind.value,
            detail=source.detail,
            methods=request.methods or ("*",),
            path=request.path,
        )
    return RuleInfo(
        action=rule.action.value,
        pattern=rule.pattern,
        source=source.kind.value,
        detail=source.detail,
        bypass=rule.bypass,
    )


def verdict_info(verdict: Verdict, host: str, port: int, box: str) -> VerdictInfo:
    return VerdictInfo(
        host=host,
        port=port,
        allowed=verdict.allowed,
        observed=verdict.observed,
        bypass=verdict.bypass,
        reason=verdict.reason,
        rule=rule_info(verdict.rule) if verdict.rule else None,
        command="" if verdict.allowed else explain.allow_command(host, port, box or _ANYBODY, verdict),
    )


def request_info(reached: VerdictInfo, rules: HostRules | None, target: Target, box: str) -> VerdictInfo:
    """Of a host that may be reached: what becomes of a request, as far as policy has a say in it."""
    info = replace(reached, method=target.method, path=target.path)
    if rules is None:
        return info
    if reached.bypass:
        reason = f"{reached.reason} as a bypass, and rules about requests cannot hold there: nothing passes"
        return replace(info, allowed=False, reason=reason)
    if not target.method:
        return replace(info, reason=f"{reached.reason}; each request is held to rules, ask with a URL or --method")
    verdict = rules.decide(target.method, target.path)
    command = ""
    if not verdict.allowed:
        at = target.method, target.host, target.port, target.path
        command = explain.allow_request_command(*at, box or _ANYBODY, verdict)
    return replace(
        info,
        allowed=verdict.allowed,
        reason=verdict.reason,
        rule=rule_info(verdict.rule) if verdict.rule else (reached.rule if verdict.allowed else None),
        command=command,
    )

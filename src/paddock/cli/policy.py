"""policy show|check|why|allow|deny|rm|suggest, network proxy."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Literal

from paddock import codec, text
from paddock.cli import networds
from paddock.cli.main import say_open
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.model import Network, NetworkRule
from paddock.policy import Request

if TYPE_CHECKING:
    import argparse

    from paddock.reports import PolicyInfo, RuleInfo, VerdictInfo

_DENIED = 77
_LINE_CHARS = 600


def proxy(options: argparse.Namespace) -> int:
    change = networds.network(options)
    if change == Network():
        hint = f"`paddock policy show {options.box}` shows what is there"
        raise UserError("nothing to change", hint=hint, code="usage")
    with Paddock() as paddock:
        info = paddock.named(options.box).set_network(change)
    return _print(info, as_json=options.json)


def show(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        info = paddock.policy.show(options.box)
    return _print(info, as_json=options.json)


def _print(info: PolicyInfo, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(codec.to_wire(info), indent=2))
        return 0
    say_open(info.network)
    print(f"{'box':14} {info.box or '(every new box)'}\n{'network':14} {info.network}\n{'on deny':14} {info.on_deny}")
    for source in info.sources:
        problem = f": {source.problem}" if source.problem else ""
        print(f"{source.kind:14} {text.neutralise(f'{source.place} ({source.state}{problem})', _LINE_CHARS)}")
    for layer in info.layers:
        print(f"\nlayer {layer.name}: {layer.default} by default")
        rows = [(rule.action + (" (bypass)" if rule.bypass else ""), _about(rule), _from(rule)) for rule in layer.rules]
        if rows:
            print(text.table(rows, ("ACTION", "PATTERN", "FROM")))
    return 0


def _about(rule: RuleInfo) -> str:
    return " ".join(filter(None, (",".join(rule.methods), rule.pattern + rule.path)))


def _from(rule: RuleInfo) -> str:
    return f"{rule.source}: {rule.detail}" if rule.detail else rule.source


def check(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        verdicts = [paddock.policy.check(target, options.box, options.method) for target in options.targets]
    if options.json:
        print(json.dumps([codec.to_wire(verdict) for verdict in verdicts], indent=2))
    else:
        for verdict in verdicts:
            print(_line(verdict))
    return 0 if all(verdict.allowed for verdict in verdicts) else _DENIED


def _line(verdict: VerdictInfo) -> str:
    word = "allowed" if verdict.allowed else "denied"
    return text.neutralise(f"{word} {_target(verdict)}: {verdict.reason}", _LINE_CHARS)


def _target(verdict: VerdictInfo) -> str:
    host = f"[{verdict.host}]" if ":" in verdict.host else verdict.host
    return " ".join(filter(None, (verdict.method, f"{host}:{verdict.port}{verdict.path}")))


def why(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        verdict = paddock.policy.check(options.target_host, options.box, options.method)
    if options.json:
        print(json.dumps(codec.to_wire(verdict), indent=2))
        return 0
    print(_line(verdict))
    if verdict.rule:
        rule = verdict.rule
        bypass = ", unchecked" if rule.bypass else ""
        print(text.neutralise(f"rule: {rule.action} {_about(rule)}{bypass} (from {_from(rule)})", _LINE_CHARS))
    else:
        print("rule: none speaks of it; the default decides")
    if verdict.observed:
        print("observed: it would be refused if this box did not observe")
    if verdict.command:
        print(text.neutralise(f"to allow it: {verdict.command}", _LINE_CHARS))
    return 0


def allow(options: argparse.Namespace) -> int:
    return _change(options, "allow")


def deny(options: argparse.Namespace) -> int:
    return _change(options, "deny")


def _change(options: argparse.Namespace, action: Literal["allow", "deny"]) -> int:
    box = target(options)
    methods = networds.methods(options.method)
    rules = [
        NetworkRule(action=action, pattern=pattern, methods=methods, path=path)
        for pattern in options.patterns
        for path in options.path or ("",)
    ]
    with Paddock() as paddock:
        info = paddock.policy.add(rules, box)
    return _done(info, options)


def rm(options: argparse.Namespace) -> int:
    box = target(options)
    words = list(options.patterns)
    if options.method or options.path:
        methods = networds.methods(options.method)
        words = [Request.of(word, methods, path).text for word in words for path in options.path or ("",)]
    with Paddock() as paddock:
        info = paddock.policy.remove(words, box)
    return _done(info, options)


def _done(info: PolicyInfo, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(codec.to_wire(info), indent=2))
    return 0


def target(options: argparse.Namespace) -> str:
    """The box a change is for; empty for the user's own file. One of them must be said: neither is the small one."""
    if bool(options.box) == options.user:
        hint = "--box BOX changes one box, --user all of yours"
        raise UserError("say for whom: --box BOX or --user", hint=hint, code="usage")
    return str(options.box)


def suggest(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        patterns = paddock.policy.suggest(options.box)
    if options.json:
        print(json.dumps(patterns, indent=2))
        return 0
    for pattern in patterns:
        print(f"paddock policy allow --box {options.box} {text.neutralise(pattern)}")
    if not patterns:
        print(f"nothing was refused to {options.box}", file=sys.stderr)
    return 0

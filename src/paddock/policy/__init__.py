"""What a box may reach: hosts, patterns, rules, and the one evaluator everybody asks. Pure: no sockets, no async.

Each part is loaded by those who use it: the command line reads a pattern without the evaluator and all presets.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.policy.evaluator import Evaluator
    from paddock.policy.host import Address, Host, parse_authority, parse_port
    from paddock.policy.pattern import Pattern
    from paddock.policy.requests import Request, RequestRules, RequestVerdict
    from paddock.policy.rules import (
        Action,
        Default,
        Layer,
        OnDeny,
        Policy,
        RequestRule,
        Rule,
        Source,
        SourceKind,
        Verdict,
    )

__all__ = [
    "Action",
    "Address",
    "Default",
    "Evaluator",
    "Host",
    "Layer",
    "OnDeny",
    "Pattern",
    "Policy",
    "Request",
    "RequestRule",
    "RequestRules",
    "RequestVerdict",
    "Rule",
    "Source",
    "SourceKind",
    "Verdict",
    "parse_authority",
    "parse_port",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        msg = f"module 'paddock.policy' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = found = _load(name)
    return found


def _load(name: str) -> object:
    match name:
        case "Evaluator":
            from paddock.policy import evaluator

            return evaluator.Evaluator
        case "Address" | "Host" | "parse_authority" | "parse_port":
            from paddock.policy import host

            return getattr(host, name)
        case "Pattern":
            from paddock.policy import pattern

            return pattern.Pattern
        case "Request" | "RequestRules" | "RequestVerdict":
            from paddock.policy import requests

            return getattr(requests, name)
        case _:
            from paddock.policy import rules

            return getattr(rules, name)

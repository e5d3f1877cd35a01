"""What a box may reach: hosts, patterns, rules, and the one evaluator everybody asks. Pure: no sockets, no async."""

from __future__ import annotations

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

from __future__ import annotations

import json

import pytest

from paddock.codec import from_wire, to_wire
from paddock.errors import UserError
from paddock.policy.rules import Action, Default, Layer, OnDeny, Policy, Rule, Source, SourceKind

USER = Source(SourceKind.USER, "policy.toml")
POLICY = Policy(
    layers=(Layer("box", Default.OBSERVE, (Rule(Action.ALLOW, "*.example.com", USER, bypass=True),)), Layer("empty")),
    on_deny=OnDeny.ASK,
)


def test_a_policy_travels_unchanged() -> None:
    assert from_wire(Policy, json.loads(json.dumps(to_wire(POLICY)))) == POLICY


def test_the_zero_value_denies() -> None:
    assert Policy().layers == ()
    assert Policy().on_deny is OnDeny.DENY
    assert Layer("box").default is Default.DENY


@pytest.mark.parametrize(
    "data",
    [
        {"layers": [{"name": "box", "default": "open", "rules": []}]},
        {"layers": [{"name": "box", "default": "deny", "rules": [{"action": "allow", "pattern": "*"}]}]},
        {"layers": [], "on_deny": "perhaps"},
        {"layers": [], "more": 1},
    ],
)
def test_what_is_no_policy_is_refused(data: object) -> None:
    with pytest.raises(UserError):
        from_wire(Policy, data)


def test_a_rule_says_where_it_is_from() -> None:
    assert str(Rule(Action.DENY, "*", Source(SourceKind.PRESET, "locked-down"))) == "deny * (preset locked-down)"
    assert str(Rule(Action.ALLOW, "a.com", USER, bypass=True)) == "bypass a.com (user policy.toml)"
    assert str(Source(SourceKind.FLAG)) == "flag"

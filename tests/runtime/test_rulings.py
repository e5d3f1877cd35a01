"""What people ask and decide about policies, where the command line's own tests do not reach."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.policy import Action, Default, Layer, Rule, Source, SourceKind
from paddock.policy.files import parse_policy_toml
from paddock.runtime import rulings

if TYPE_CHECKING:
    from tests.support.installation import Installation

_SOURCE = Source(SourceKind.FLAG, "test")


def test_a_layer_is_written_as_a_file_that_says_the_same() -> None:
    layer = Layer(
        "box",
        Default.OBSERVE,
        (
            Rule(Action.ALLOW, "*.a.example:443", _SOURCE),
            Rule(Action.DENY, "10.0.0.0/8", _SOURCE),
            Rule(Action.ALLOW, "[2001:db8::1]:22", _SOURCE, bypass=True),
            Rule(Action.ALLOW, "*.a.example:443", Source(SourceKind.USER, "twice")),
        ),
    )
    said = parse_policy_toml(rulings._toml(layer), "policy.toml")
    assert (said.default, said.allow, said.deny, said.bypass) == (
        Default.OBSERVE,
        ("*.a.example:443",),
        ("10.0.0.0/8",),
        ("[2001:db8::1]:22",),
    )
    assert rulings._toml(Layer("box")) == 'default = "deny"\n'


@pytest.mark.box
def test_a_rule_of_the_users_file_that_is_not_there_is_named(installation: Installation) -> None:
    done = installation.cli("policy", "rm", "--user", "never.example")
    assert (done.returncode, b"there is no rule 'never.example'" in done.stderr) == (2, True)


@pytest.mark.box
def test_a_preset_is_added_and_taken_away(installation: Installation) -> None:
    assert installation.cli("create", "box", "--preset", "github").returncode == 0
    assert installation.cli("policy", "check", "--box", "box", "github.com").returncode == 0
    assert json.loads(installation.cli("ls", "--json").stdout)[0]["network"] == "rules"
    assert installation.cli("policy", "rm", "--box", "box", "preset:github").returncode == 0
    assert installation.cli("policy", "check", "--box", "box", "github.com").returncode == 77
    assert installation.cli("policy", "rm", "--box", "box", "preset:github").returncode == 2

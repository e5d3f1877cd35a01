"""A box's own rules: in one spelling, the later word counts, and nonsense is refused."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.model import Network
from paddock.runtime.flags import canonical, merge, statement, without
from tests.support.networks import flags


def test_a_change_is_added_and_the_later_word_counts() -> None:
    before = flags("allow a.example", "allow b.example:443", presets=("github",))
    after = merge(before, flags("deny A.EXAMPLE", "allow c.example", default="allow", presets=("github", "vscode")))
    assert [(one.action, one.pattern) for one in after.rules] == [
        ("allow", "b.example:443"),
        ("deny", "a.example"),
        ("allow", "c.example"),
    ]
    assert (after.default, after.on_deny, after.presets) == ("allow", "", ("github", "vscode"))
    assert merge(after, Network()) == after


def test_rules_are_removed_by_any_spelling_of_their_pattern() -> None:
    network = flags("allow a.example", "deny b.example")
    assert without(network, ("A.Example",)) == flags("deny b.example")
    with pytest.raises(UserError) as caught:
        without(network, ("c.example",))
    assert caught.value.code == "no-rule"


@pytest.mark.parametrize(
    ("network", "code"),
    [
        (flags("allow 0x7f.1"), "bad-pattern"),
        (flags("allow localhost"), "bad-pattern"),
        (flags("deny exa\0mple.com"), "bad-pattern"),
        (flags(presets=("no-such-preset",)), "unknown-preset"),
    ],
)
def test_flags_that_make_no_sense_are_refused(network: Network, code: str) -> None:
    with pytest.raises(UserError) as caught:
        canonical(network)
    assert caught.value.code == code


def test_a_bypass_is_an_allow_that_is_opaque() -> None:
    said = statement(flags("bypass a.example", "allow b.example", "deny c.example"))
    assert (said.bypass, said.allow, said.deny) == (("a.example",), ("b.example",), ("c.example",))


def test_a_preset_is_removed_by_its_name() -> None:
    network = flags("allow a.example", presets=("github", "vscode"))
    assert without(network, ("preset:github",)) == flags("allow a.example", presets=("vscode",))
    with pytest.raises(UserError, match="preset:python"):
        without(network, ("preset:python",))


def test_there_is_one_spelling_and_nothing_is_said_twice() -> None:
    assert canonical(flags("allow A.Example", "allow a.example", presets=("github", "github"))) == flags(
        "allow a.example", presets=("github",)
    )

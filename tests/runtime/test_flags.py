"""A box's own rules: in one spelling, the later word counts, and nonsense is refused."""

from __future__ import annotations

from typing import Literal

import pytest

from paddock.errors import UserError
from paddock.model import Network, NetworkRule
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


def asked(action: Literal["allow", "deny"], *methods: str, path: str = "", pattern: str = "a.example") -> NetworkRule:
    return NetworkRule(action=action, pattern=pattern, methods=methods, path=path)


def test_rules_about_requests_are_merged_by_what_they_speak_of() -> None:
    before = merge(flags("deny a.example", "bypass b.example"), Network(rules=(asked("deny", "GET", path="/x"),)))
    assert statement(before).deny == ("a.example",)
    after = merge(before, Network(rules=(asked("allow", "GET", path="/x"), asked("allow", path="/**"))))
    said = statement(after)
    assert (said.deny, said.allow_requests, said.deny_requests) == ((), ("GET a.example/x", "* a.example"), ())
    closed = merge(after, Network(rules=(asked("deny", "PUT", pattern="b.example"),)))
    assert statement(closed).bypass == ()
    with pytest.raises(UserError, match="is bypassed and has rules about requests"):
        merge(after, flags("bypass a.example"))


def test_a_rule_about_requests_is_removed_by_itself_or_with_its_host() -> None:
    network = Network(rules=(asked("allow", "GET", path="/x"), asked("allow", "PUT"), *flags("allow a.example").rules))
    network = canonical(network)
    assert statement(without(network, ("GET a.example/x",))).allow_requests == ("PUT a.example",)
    assert without(network, ("a.example",)).rules == ()
    with pytest.raises(UserError, match="there is no rule 'POST "):
        without(network, ("POST a.example",))
    with pytest.raises(UserError, match="bypassed"):
        canonical(Network(rules=(NetworkRule(action="allow", pattern="a.example", bypass=True, methods=("GET",)),)))

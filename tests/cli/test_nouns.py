"""Options of networks and policies are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import nouns, pages, parser
from paddock.errors import UserError


def test_the_options_of_a_network_stand_on_run_create_and_proxy() -> None:
    for words in (["run", "--"], ["create", "box"], ["network", "proxy", "box"]):
        _, options = parser.parse(
            [*words[:-1], "--policy", "deny", "--allow-host", "a", "--block-cidr", "b", "--preset", "c", words[-1]]
        )
        assert (options.policy, options.allow_host, options.block_cidr, options.preset) == ("deny", ["a"], ["b"], ["c"])
        assert hasattr(options, "publish") == (words[0] != "network")


@pytest.mark.parametrize("verb", ["allow", "deny", "rm"])
def test_a_change_takes_patterns_before_and_after_its_target(verb: str) -> None:
    _, options = parser.parse(["policy", verb, "a.example", "--box", "demo", "b.example"])
    assert (options.patterns, options.box, options.user) == (["a.example", "b.example"], "demo", False)


def test_every_noun_is_a_verb_of_the_overview() -> None:
    assert set(nouns.NOUNS) < set(pages.VERBS)


@pytest.mark.parametrize(
    "words", [["policy", "check"], ["network", "proxy"], ["ports"], ["policy", "import", "--user"]]
)
def test_what_is_missing_is_said(words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        parser.parse(words)
    assert "required" in caught.value.message

"""The words of `secret` and `usage` are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import parser, secretnouns, verbs


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["set", "github", "--repo", "me/project:ro"], verbs.secret_set),
        (["login", "claude"], verbs.secret_login),
        (["ls"], verbs.secret_ls),
        (["rm", "github"], verbs.secret_rm),
        (["check"], verbs.secret_check),
    ],
)
def test_each_verb_has_its_function(words: list[str], target: object) -> None:
    assert words[0] in secretnouns.VERBS
    action, _ = parser.parse(["secret", *words])
    assert action is target


def test_secrets_and_budgets_are_given_to_run_and_create() -> None:
    for words in (["run", "--"], ["create", "box"]):
        _, options = parser.parse([words[0], "--secret", "a", "--secret", "b:ro", "--max-cost", "5", words[-1]])
        assert (options.secret, options.max_cost, options.mcp) == (["a", "b:ro"], "5", [])


def test_usage_is_of_one_box_or_all() -> None:
    assert parser.parse(["usage"])[1].box == ""
    assert parser.parse(["usage", "demo"])[1].box == "demo"

"""The words of `checkpoint` and `df` are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import checkpointnouns, parser, verbs
from paddock.errors import UserError


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["create", "box", "name", "--stop"], verbs.checkpoint_create),
        (["ls"], verbs.checkpoint_ls),
        (["restore", "box@name"], verbs.checkpoint_restore),
        (["fork", "-n", "5", "box"], verbs.checkpoint_fork),
        (["diff", "box@a", "box"], verbs.checkpoint_diff),
        (["rm", "box@a", "box@b"], verbs.checkpoint_rm),
        (["prune"], verbs.checkpoint_prune),
    ],
)
def test_each_verb_has_its_function(words: list[str], target: object) -> None:
    assert words[0] in checkpointnouns.VERBS
    action, _ = parser.parse(["checkpoint", *words])
    assert action is target


def test_df_is_a_verb() -> None:
    action, options = parser.parse(["df", "--json"])
    assert (action, options.json) == (verbs.df, True)


def test_two_states_are_compared() -> None:
    with pytest.raises(UserError, match="required"):
        parser.parse(["checkpoint", "diff", "one"])

"""The words of `agent` are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import agentnouns, parser, verbs
from paddock.errors import UserError


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["ls"], verbs.agent_ls),
        (["show", "claude"], verbs.agent_show),
        (["check"], verbs.agent_check),
        (["install", "claude@1.2"], verbs.agent_install),
        (["rm", "claude"], verbs.agent_rm),
    ],
)
def test_each_verb_has_its_function(words: list[str], target: object) -> None:
    assert words[0] in agentnouns.VERBS
    action, _ = parser.parse(["agent", *words])
    assert action is target


def test_a_file_stands_in_place_of_a_name() -> None:
    for verb in ("show", "check", "install"):
        _, options = parser.parse(["agent", verb, "--agent-file", "my.toml"])
        assert options.agent_file == "my.toml"


def test_what_is_removed_is_named() -> None:
    with pytest.raises(UserError, match="required"):
        parser.parse(["agent", "rm"])

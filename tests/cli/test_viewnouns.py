"""Options of the workspace are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import parser, verbs


def test_the_options_of_a_view_stand_on_run_and_create() -> None:
    for words in (["run", "--"], ["create", "box"]):
        _, options = parser.parse([words[0], "--clone", "--branch", "b", "--mask", ".env", "--mask", "x", words[-1]])
        assert (options.clone, options.review, options.branch, options.mask) == (True, False, "b", [".env", "x"])


@pytest.mark.parametrize(("verb", "target"), [("diff", verbs.diff), ("apply", verbs.apply), ("discard", verbs.discard)])
def test_what_is_changed_is_named_by_its_box_and_paths(verb: str, target: object) -> None:
    action, options = parser.parse([verb, "demo", "a", "b/c"])
    assert action is target
    assert (options.box, options.paths) == ("demo", ["a", "b/c"])


def test_git_takes_a_box_and_a_word() -> None:
    action, options = parser.parse(["git", "demo", "fetch"])
    assert action is verbs.git
    assert (options.box, options.what, options.json) == ("demo", "fetch", False)

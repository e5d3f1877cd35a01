"""An editor that a box has, and pages that nobody turns."""

from __future__ import annotations

import pytest

from paddock.runtime.surroundings import fitted

BOX = {"PATH": "/usr/bin:/bin", "TERM": "dumb"}


@pytest.mark.parametrize("editor", ["sh", "sh -c", "/bin/sh", "/home/agent/bin/own"])
def test_an_editor_that_is_there_is_passed_on(editor: str) -> None:
    assert fitted(BOX, {"EDITOR": editor}, tty=True)["EDITOR"] == editor


@pytest.mark.parametrize("editor", ["no-such-editor", "no-such-editor --wait", "/usr/bin/no-such-editor", " "])
def test_one_that_is_not_is_left_out(editor: str) -> None:
    assert "VISUAL" not in fitted(BOX, {"VISUAL": editor}, tty=True)
    assert fitted({**BOX, "VISUAL": "sh"}, {"VISUAL": editor}, tty=True)["VISUAL"] == "sh"


def test_without_a_terminal_nobody_turns_pages() -> None:
    assert fitted(BOX, {}, tty=False) == {**BOX, "PAGER": "cat", "GIT_PAGER": "cat"}
    assert fitted(BOX, {"PAGER": "less"}, tty=False)["PAGER"] == "less"
    assert "PAGER" not in fitted(BOX, {}, tty=True)


def test_a_terminal_has_a_kind() -> None:
    assert fitted({"PATH": "/bin"}, {}, tty=True)["TERM"] == "xterm-256color"
    assert fitted(BOX, {"TERM": "xterm-kitty"}, tty=True)["TERM"] == "xterm-kitty"

"""Colours of a diff."""

from __future__ import annotations

import re

import pytest

from paddock.cli import paint

LINES = [
    "added file -x",
    "danger: build: it runs",
    "@@ -0,0 +1,3 @@",
    "+danger: no head",
    "-gone",
    " same",
    "\\ no newline",
]


def test_signs_of_hunks_and_warnings_of_heads_have_colours() -> None:
    colours = [(re.match(r"\x1b\[(\d+)m", line) or [""])[0].strip("\x1b[m") for line in paint.painted(LINES)]
    assert colours == ["1", "33", "36", "32", "31", "", ""]


def test_paint_adds_nothing_but_colours() -> None:
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in paint.painted(LINES)] == LINES


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "value", "wanted"), [("X", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)]
)
def test_a_terminal_gets_colours_unless_its_user_wants_none(
    terminal: pytest.MonkeyPatch, name: str, value: str, wanted: bool
) -> None:
    terminal.setenv(name, value)
    assert paint.is_wanted() is wanted


def test_a_pipe_gets_none() -> None:
    assert not paint.is_wanted()

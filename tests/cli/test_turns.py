"""What a run is to do, from the command line; the rest is tested with real boxes in test_agentruns.py."""

from __future__ import annotations

import argparse
import io
import sys
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.agents import LAST, Turn
from paddock.cli import terminal, turns
from paddock.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

CLAUDE = agents.of("claude", "")


def options(*command: str, **rest: object) -> argparse.Namespace:
    usual = {"ask": False, "model": "", "json": False, "detach": False, "prompt_file": "", "stuck_after": ""}
    return argparse.Namespace(command=list(command), **{**usual, **rest})


def test_at_a_terminal_an_agent_is_interactive_unless_its_machine_output_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    assert turns.turn(CLAUDE, options()) == Turn()
    assert turns.turn(CLAUDE, options("--continue")) == Turn(resume=LAST)
    assert turns.turn(CLAUDE, options("p")) == Turn(prompt="p")
    assert turns.turn(CLAUDE, options("p", json=True)) == Turn(prompt="p", json=True, headless=True)
    assert turns.turn(CLAUDE, options("p", detach=True, ask=True)) == Turn(prompt="p", headless=True, ask=True)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b"])
def test_a_prompt_is_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(UserError) as caught:
        turns.turn(CLAUDE, options(prompt_file=str(tmp_path / "p"), detach=True))
    assert caught.value.code == "bad-prompt"


def test_standard_input_is_read_only_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"unread")))
    assert turns.turn(CLAUDE, options("p")).prompt == "p"
    assert turns.turn(CLAUDE, options("-")).prompt == "unread"


@pytest.mark.parametrize(("word", "after_s"), [("", None), ("never", 0.0), ("90s", 90.0), ("1h", 3600.0)])
def test_silence_is_as_long_as_the_definition_says_unless_its_user_does(word: str, after_s: float | None) -> None:
    assert turns.turn(CLAUDE, options("p", json=True, stuck_after=word)).stuck_after_s == after_s
    for bad in ("0", "soon", "-1s"):
        with pytest.raises(UserError, match="--stuck-after"):
            turns.turn(CLAUDE, options("p", json=True, stuck_after=bad))

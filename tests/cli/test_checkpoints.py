"""What `checkpoint` prints, and what of it is an agent's words."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli import checkpoints
from tests.support.fakesdk import Opened

if TYPE_CHECKING:
    import pytest


class _Paddock(Opened):
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def call(self, _verb: str, **_args: object) -> object:
        return self.answer


def _said(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    monkeypatch.setattr(checkpoints, "Paddock", _Paddock(answer))


def test_paths_of_a_difference_cannot_speak_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {"kind": "added", "path": "/home/\x1b]52;c;YQ==\x07"}
    _said(monkeypatch, {"differences": [hostile], "is_whole": False})
    assert checkpoints.diff(argparse.Namespace(one="a", other="b", json=False)) == 1
    said = capsys.readouterr()
    assert "\x1b" not in said.out
    assert said.out.startswith("+ /home/")
    assert "more differences" in said.err
    _said(monkeypatch, {"differences": [], "is_whole": True})
    assert checkpoints.diff(argparse.Namespace(one="a", other="b", json=False)) == 0

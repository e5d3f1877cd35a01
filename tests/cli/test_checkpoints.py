"""What `checkpoint` prints, and what of it is an agent's words."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Self

from paddock.cli import checkpoints

if TYPE_CHECKING:
    import pytest


class _Paddock:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __call__(self) -> _Paddock:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

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


def test_what_layers_take_is_summed_by_whether_anybody_uses_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": "frozen:" + "a" * 32, "disk_bytes": 1024, "is_whole": True, "is_used": True},
        {"id": "sha256:" + "b" * 64, "disk_bytes": 2048, "is_whole": False, "is_used": False},
    ]
    _said(monkeypatch, rows)
    assert checkpoints.df(argparse.Namespace(json=False)) == 0
    out = capsys.readouterr().out
    assert "or more" in out
    assert out.splitlines()[-2].startswith("used: 1")
    assert out.splitlines()[-1].startswith("unused: 2")

"""How long something takes is told on a terminal, and on nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.cli import ticking
from paddock.cli.ticking import Ticking
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_terminal_is_told_of_what_grows_and_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ticking, "_EVERY_S", 0.01)
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 2)
    (tmp_path / "x").write_bytes(b"x" * 100_000)
    said = ""

    def told() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "KiB by now" in said

    with Ticking(str(tmp_path)) as one:
        until(told, "it says how much there is")
        assert repr(one) == f"<Ticking {tmp_path}>"
    said += capsys.readouterr().err
    assert said.endswith(" \r")
    assert "\n" not in said


def test_nothing_else_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ticking(str(tmp_path)):
        pass
    assert capsys.readouterr().err == ""

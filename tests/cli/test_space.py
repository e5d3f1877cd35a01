"""df as people read it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli import space
from paddock.client import Paddock

if TYPE_CHECKING:
    import pytest


def test_df_shows_what_is_whose_and_what_prune_would_remove(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"kind": "box", "name": "demo", "own_bytes": 1024, "shared_bytes": 4096},
        {"kind": "layer", "name": "frozen:" + "a" * 32, "own_bytes": 4096},
        {"kind": "layer", "name": "sha256:" + "b" * 64, "own_bytes": 2048, "is_whole": False, "is_used": False},
    ]
    answer = {"items": rows, "free_bytes": 1 << 30, "total_bytes": 1 << 20, "box_bytes": 0}
    monkeypatch.setattr(Paddock, "call", lambda _self, _verb, **_args: answer)
    assert space.df(argparse.Namespace(json=False)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["box", "demo", "1KiB", "4KiB"]
    assert "2KiB or more" in lines[2]
    assert lines[-2] == "layers: 2, 6KiB or more; unused, which `prune` removes: 2KiB"
    assert lines[-1] == "free on the disk: 1GiB; quota of all layers: 1MiB"
    assert space.df(argparse.Namespace(json=True)) == 0
    assert '"free_bytes": 1073741824' in capsys.readouterr().out

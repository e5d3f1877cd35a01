"""checkpoint export and import, as far as they are the command line's."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from typing import TYPE_CHECKING, Self

import pytest

from paddock.cli import checkpointfiles, placing
from paddock.errors import UserError
from paddock.paths import Paths
from tests.support.fakesdk import Opened
from tests.support.infos import BOX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Paddock(Opened):
    """Stands for the SDK and for a box of it."""

    name, info = "box", BOX

    def __init__(self, home: Path) -> None:
        self.paths = Paths({"PADDOCK_HOME": os.fspath(home)})
        self.asked: list[object] = []

    def named(self, name: str) -> Self:
        self.asked.append(name)
        return self

    def export(self, *words: str, directory: int) -> str:
        self.asked.append((*words, directory))
        return "sha256:0"

    def import_checkpoint(self, *words: str, workspace: str) -> Self:
        self.asked.append((*words, workspace))
        return self


@pytest.fixture
def paddock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Paddock:
    stand_in = _Paddock(tmp_path)
    monkeypatch.setattr(checkpointfiles, "Paddock", stand_in)

    @contextlib.contextmanager
    def outgoing(_paddock: object, output: str) -> Iterator[tuple[str, int]]:
        yield f"/place/{output}", 7

    monkeypatch.setattr(placing, "outgoing", outgoing)
    return stand_in


def test_a_checkpoint_is_written_where_it_was_said(paddock: _Paddock, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkpointfiles.export(Namespace(checkpoint="box@c1", output="out", json=False)) == 0
    assert capsys.readouterr().out == "/place/out\n"
    assert paddock.asked == ["box", ("c1", "/place/out", 7)]
    assert checkpointfiles.export(Namespace(checkpoint="box@c1", output="out", json=True)) == 0
    assert '"digest": "sha256:0"' in capsys.readouterr().out


def test_a_file_becomes_a_box(
    paddock: _Paddock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _fd: False)
    for file in ("out", "-"):
        assert checkpointfiles.import_(Namespace(file=file, workspace="", name="n", json=False)) == 0
    assert capsys.readouterr().out == "box\nbox\n"
    assert paddock.asked == [("out", "n", "."), (f"/proc/{os.getpid()}/fd/0", "n", ".")]
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    with pytest.raises(UserError, match="standard input is a terminal"):
        checkpointfiles.import_(Namespace(file="-", workspace="", name="", json=False))

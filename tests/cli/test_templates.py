"""What `template` prints, and what of it is an image's words."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pytest

from paddock import codec
from paddock.cli import templates
from paddock.errors import UserError
from paddock.paths import Paths
from paddock.reports import TemplateInfo
from tests.support.fakesdk import Opened
from tests.support.infos import BOX

if TYPE_CHECKING:
    from pathlib import Path

INFO = TemplateInfo(
    name="team:v1",
    source="file",
    digest="sha256:0",
    created_at="2026-01-02T03:04:05.000+00:00",
    layers=("sha256:a", "sha256:b"),
    boxes=("one",),
    user="\x1b]0;evil\x07",
    disk_bytes=2048,
)


class _Paddock(Opened):
    """Stands for the SDK and for its templates."""

    def __init__(self, home: Path) -> None:
        self.paths = Paths({"PADDOCK_HOME": os.fspath(home)})
        self.found: list[Any] = [INFO]
        self.asked: list[object] = []

    @property
    def templates(self) -> Self:
        return self

    def ls(self) -> list[TemplateInfo]:
        return self.found

    def inspect(self, _name: str) -> TemplateInfo:
        return INFO

    def load(self, *words: str) -> list[TemplateInfo]:
        self.asked.append(words)
        return self.found

    def named(self, name: str) -> Self:
        self.asked.append(name)
        return self

    def save(self, name: str, *, stop: bool) -> TemplateInfo:
        self.asked = [(*self.asked, name, stop)]
        return INFO

    def remove(self, name: str) -> None:
        self.asked.append(name)


@pytest.fixture
def paddock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Paddock:
    stand_in = _Paddock(tmp_path)
    monkeypatch.setattr(templates, "Paddock", stand_in)
    return stand_in


def test_templates_are_listed(paddock: _Paddock, capsys: pytest.CaptureFixture[str]) -> None:
    assert templates.ls(Namespace(json=False, quiet=False)) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["team:v1", "file", "2026-01-02", "03:04:05", "2", "1"]
    assert templates.ls(Namespace(json=False, quiet=True)) == 0
    assert capsys.readouterr().out == "team:v1\n"
    assert templates.ls(Namespace(json=True, quiet=False)) == 0
    assert json.loads(capsys.readouterr().out) == [codec.to_wire(INFO)]
    paddock.found = []
    assert templates.ls(Namespace(json=False, quiet=False)) == 0
    assert "no templates" in capsys.readouterr().err


@pytest.mark.usefixtures("paddock")
def test_an_image_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert templates.inspect(Namespace(template="team:v1", json=False)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "disk          2KiB\n" in out
    assert out.endswith("layer         sha256:a\nlayer         sha256:b\n")
    assert templates.inspect(Namespace(template="team:v1", json=True)) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "team:v1"


def test_what_is_loaded_and_removed_is_named(
    paddock: _Paddock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert templates.load(Namespace(file="image.tar", name="", json=False)) == 0
    monkeypatch.setattr(os, "isatty", lambda _fd: False)
    assert templates.load(Namespace(file="-", name="x", json=True)) == 0
    assert templates.rm(Namespace(templates=["a", "b:1"])) == 0
    assert paddock.asked == [("image.tar", ""), (f"/proc/{os.getpid()}/fd/0", "x"), "a", "b:1"]
    assert capsys.readouterr().out.startswith("team:v1\n[")
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    with pytest.raises(UserError, match="standard input is a terminal"):
        templates.load(Namespace(file="-", name="", json=False))


def test_a_place_that_a_box_made_a_link_is_not_written(paddock: _Paddock, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "out").symlink_to(tmp_path)
    paddock.found = [replace(BOX, workspace=str(workspace))]
    with pytest.raises(UserError, match="is a symbolic link"):
        templates.save(Namespace(template="team:v1", output=f"{workspace}/out/file", json=False))
    with pytest.raises(UserError, match="cannot open"):
        templates.save(Namespace(template="team:v1", output=f"{workspace}/missing/file", json=False))


def test_a_box_is_saved_under_a_name(paddock: _Paddock, capsys: pytest.CaptureFixture[str]) -> None:
    words = Namespace(box="box", name="team:v1", output="", stop=False, json=False)
    assert templates.save_box(words) == 0
    assert capsys.readouterr().out == "team:v1\n"
    assert paddock.asked == [("box", "team:v1", False)]

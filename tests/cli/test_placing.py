"""Where files go that leave Paddock."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.cli import placing
from paddock.errors import UserError
from tests.support.infos import BOX

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock
    from paddock.model import BoxInfo


class _Boxes:
    def __init__(self, *boxes: BoxInfo) -> None:
        self._boxes = boxes

    def ls(self) -> list[BoxInfo]:
        return [*self._boxes]


def _placed(output: str, *boxes: BoxInfo) -> str:
    paddock: Paddock = _Boxes(*boxes)  # type: ignore[assignment]
    with placing.outgoing(paddock, output) as (place, directory):
        assert os.path.samestat(os.fstat(directory), os.stat(os.path.dirname(place)))
        return place


def test_a_file_is_where_it_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for word in ("file", f"{tmp_path}/file", "link/file"):  # a link of one's own is followed
        assert _placed(word) == f"{tmp_path}/file"


def test_a_link_that_a_box_may_have_made_is_not_followed(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "out").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a symbolic link"):
        _placed(f"{workspace}/out/file", replace(BOX, workspace=str(workspace)))
    assert _placed(f"{workspace}/file", replace(BOX, workspace=str(workspace))) == f"{workspace}/file"


def test_a_directory_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot open .*/missing"):
        _placed(f"{tmp_path}/missing/file")

"""Whose word a definition is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.client.defining import checked, safe_path, writable
from paddock.errors import UserError
from paddock.model import Mount, WorkspaceMode
from tests.support.infos import BOX

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.model import BoxInfo

TEXT = 'name = "mine"\ntitle = "Mine"\nprogram = "mine"\n'


def test_a_file_that_the_box_is_to_have_is_refused_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "mine.toml"
    file.write_text(TEXT)
    (tmp_path / "mine.toml").symlink_to(file)
    (tmp_path / "way").symlink_to(tmp_path / "work")
    for path in (file, tmp_path / "mine.toml", tmp_path / "way" / "mine.toml"):
        for place in ("work", "way"):
            with pytest.raises(UserError, match="where a box could change it"):
                checked(agents.read(str(path)), (), [str(tmp_path / place)])
        assert checked(agents.read(str(path)), (), [str(tmp_path / "wor")]).agent.name == "mine"


def test_what_comes_with_paddock_has_no_file_to_change() -> None:
    assert checked(agents.find("claude"), (), ["/"]).agent.name == "claude"


def test_a_path_leads_to_nothing_that_a_box_can_write(tmp_path: Path) -> None:
    for name in ("work/bin", "review", "data", "own"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "way").symlink_to(tmp_path / "work")
    boxes = [
        _box(tmp_path / "work", Mount(source=f"{tmp_path}/data", target="/data")),
        _box(tmp_path / "review", Mount(source=f"{tmp_path}/own", target="/own", read_only=True), WorkspaceMode.REVIEW),
    ]
    assert writable(boxes) == {f"{tmp_path}/work", f"{tmp_path}/data"}
    entries = [f"{tmp_path}/{name}" for name in ("work/bin", "way/bin", "data", "review", "own", "work2")]
    assert safe_path(":".join([".", "bin", "", *entries, "/usr/bin"]), boxes) == ":".join([*entries[3:], "/usr/bin"])


def _box(workspace: Path, mount: Mount, mode: WorkspaceMode = WorkspaceMode.LIVE) -> BoxInfo:
    return replace(BOX, workspace=str(workspace), mounts=(mount,), mode=mode)

"""Whose word a definition is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.client.defining import checked
from paddock.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

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

"""Host paths as the caller means them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import hostpaths
from paddock.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_that_is_gone_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match="current directory was removed"):
        hostpaths.place(".")
    assert hostpaths.place("/srv") == "/srv"

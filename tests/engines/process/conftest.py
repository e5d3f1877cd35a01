"""Where the tests of the process engine place a box; tests/support has the engine and the plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in (
        *("state", "boxes/one", "work/real", "work/sub", "extra/deep", "data"),
        *("storage/home", "storage/tmp", "view/etc", "view/shims", "tools/bin"),
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "single").touch()
    (tmp_path / "tools/credentials").touch()
    return tmp_path

"""Where the tests of the process engine place a box; tests/support/engine.py has the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("state", "boxes/one", "work/real"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path

"""A project and an overlay over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspace import worlds

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "top": "top\n",
    "notes.txt": "one\ntwo\nthree\n",
    "src/a.py": "a = 1\n",
    "src/b.py": "b = 2\n",
    "src/deep/c.py": "c = 3\n",
    "old/x": "x\n",
    "old/y/z": "zed\n",
}


@pytest.fixture
def world(tmp_path: Path) -> worlds.World:
    return worlds.make(tmp_path, FILES)

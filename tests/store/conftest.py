"""A store in a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "paddock.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()

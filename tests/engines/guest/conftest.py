from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from tests.support.guest import Guest, new_guest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def guest() -> Iterator[Guest]:
    with new_guest() as found:
        yield found


@pytest.fixture(scope="module")
def _shared() -> Iterator[Guest]:
    with new_guest() as found:
        yield found


@pytest.fixture
def shared(_shared: Guest) -> Iterator[Guest]:
    yield _shared
    _shared.hang_up()


@pytest.fixture
def place() -> Iterator[Path]:
    """Not tmp_path: pytest cannot remove a tree deeper than any path. In memory, because much is made there."""
    path = Path(tempfile.mkdtemp(prefix="deep-", dir="/dev/shm"))
    yield path
    fs.remove_tree(os.fspath(path))

"""A directory below /tmp that an ordinary user can reach; pytest's own tmp_path is closed to all but its user."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests.fs.children import ORDINARY_UID

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ground() -> Iterator[str]:
    """Owned by the user that as_ordinary_user becomes."""
    path = tempfile.mkdtemp(prefix="paddock-test-", dir="/tmp")
    if os.geteuid() == 0:
        os.chown(path, ORDINARY_UID, ORDINARY_UID)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)  # rmtree of the standard library gives up on deep trees

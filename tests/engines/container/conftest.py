"""A root file system for all tests of containers, and what there is to start it with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import roots

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not roots.installed():
        pytest.skip("no OCI runtime on this machine")
    return roots.make(tmp_path_factory.mktemp("root") / "tree")

"""Programs a test tries its work with; a machine without one skips the test and says so."""

from __future__ import annotations

import shutil

import pytest


def program(name: str) -> str:
    """The path of `name`."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path

"""What every test runs under: reproducible property tests, and root's tests only for root."""

from __future__ import annotations

import os

import hypothesis
import pytest

# The same examples on every machine and run; the random order of tests comes from pytest-randomly.
hypothesis.settings.register_profile("paddock", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("paddock")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("privileged"):
            item.add_marker(pytest.mark.skip(reason="needs root"))

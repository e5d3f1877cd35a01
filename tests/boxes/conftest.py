"""The two kinds of machine, one installation each for all tests of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.perkind import PerKind
from tests.support.worlds import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=["cgroups", "bare"])
def _worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerKind[World]]:
    is_bare, new = request.param == "bare", tmp_path_factory.mktemp
    with PerKind(lambda kind: World(new(f"{request.param}-{kind}"), hide_cgroups=is_bare)) as made:
        yield made


@pytest.fixture
def world(_worlds: PerKind[World]) -> Iterator[World]:
    """An installation with cgroups, and then one without, where this machine has both."""
    found = _worlds.get()
    if found.has_cgroups == found.hides_cgroups:
        pytest.skip("this user's cgroups cannot be hidden" if found.hides_cgroups else "this user has no cgroups")
    yield found
    found.clear()
    found.sweep()

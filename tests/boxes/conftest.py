"""The two kinds of machine, one installation each for all tests of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.worlds import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=["cgroups", "bare"])
def _world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp(request.param), hide_cgroups=request.param == "bare")
    if world.has_cgroups == (request.param == "bare"):
        world.close()
        pytest.skip(
            "this user has no cgroups" if request.param == "cgroups" else "this user's cgroups cannot be hidden"
        )
    yield world
    world.close()


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    """An installation with cgroups, and then one without, where this machine has both."""
    yield _world
    _world.clear()
    for entry in _world.workspace.iterdir():
        entry.unlink()

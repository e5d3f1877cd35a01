"""The two kinds of machine, one installation each for all tests of limits; and the engines, for tests of both.

A module of tests that hold for every engine says so: `ENGINES = roots.ENGINES`. Its `installation` then makes boxes of
each kind in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import roots
from tests.support.worlds import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    engines = getattr(metafunc.module, "ENGINES", ())
    if engines and {"installation", "own_installation"} & {*metafunc.fixturenames}:
        metafunc.parametrize("kind", engines, indirect=True)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return roots.make(tmp_path_factory.mktemp("root") / "tree")


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options that make a box of this kind."""
    engine = getattr(request, "param", "process")
    if engine == "process":
        return ()
    if not roots.installed():
        pytest.skip("no OCI runtime on this machine")
    return ("--engine", engine, "-t", str(request.getfixturevalue("root")))


@pytest.fixture
def installation(kind: tuple[str, ...], installation: Installation) -> Iterator[Installation]:
    installation.kind = kind
    yield installation
    installation.kind = ()


@pytest.fixture
def own_installation(kind: tuple[str, ...], own_installation: Installation) -> Installation:
    own_installation.kind = kind
    return own_installation


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

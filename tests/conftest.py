"""What every test runs under: reproducible property tests, root's tests only for root, and real installations."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support import contract, roots
from tests.support.installation import Installation
from tests.support.origin import Origin
from tests.support.perkind import PerKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.client import Paddock

# The same examples on every machine and run; the random order of tests comes from pytest-randomly.
hypothesis.settings.register_profile("paddock", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("paddock")


# Who starts the tests in the background (nohup, a shell's &) leaves interrupts ignored, and so would every program.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("privileged"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    contract.parametrize(metafunc)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system for all container boxes."""
    return roots.make(tmp_path_factory.mktemp("root") / "tree")


@pytest.fixture(autouse=True)
def box_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every box of the test is of this kind (tests/support/contract.py)."""
    name = getattr(request, "param", contract.PROCESS)
    made = contract.Kind() if name == contract.PROCESS else contract.find(name, request.getfixturevalue("root"))
    yield from contract.being(made)


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerKind[Installation]]:
    with PerKind(lambda kind: Installation(tmp_path_factory.mktemp(f"shared-{kind}"))) as made:
        yield made


@pytest.fixture
def installation(_shared: PerKind[Installation]) -> Iterator[Installation]:
    """The session's installation for this kind, without a box before and after; its workspace is emptied too."""
    found = _shared.get()
    yield found
    found.clear()
    found.sweep()


@pytest.fixture
def own_installation(tmp_path: os.PathLike[str]) -> Iterator[Installation]:
    """An installation of this test's own, for tests that kill the daemon or break its state."""
    from pathlib import Path

    installation = Installation(Path(tmp_path))
    yield installation
    installation.close()


@pytest.fixture
def paddock(installation: Installation) -> Iterator[Paddock]:
    with installation.sdk() as sdk:
        yield sdk


@pytest.fixture
def origin() -> Iterator[Origin]:
    """A server on the host's loopback."""
    with Origin() as served:
        yield served

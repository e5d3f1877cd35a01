"""What every test runs under: reproducible property tests, root's tests only for root, and real installations."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.installation import Installation
from tests.support.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("shared"))
    yield installation
    installation.close()


@pytest.fixture
def installation(_shared: Installation) -> Iterator[Installation]:
    """The session's installation, without a box before and after; its workspace is emptied too."""
    yield _shared
    _shared.clear()
    for entry in _shared.workspace.iterdir():
        _remove(entry)


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


def _remove(entry: os.PathLike[str]) -> None:
    from paddock import fs

    fs.remove_tree(os.fspath(entry))

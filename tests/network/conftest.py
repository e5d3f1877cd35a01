"""An internet of the tests' own, and an installation in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import internet as internets
from tests.support.internet import Internet, Online

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    if absent := internets.missing():
        pytest.fail(f"missing: {', '.join(absent)}")
    made = Internet(tmp_path_factory.mktemp("internet"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def _online(tmp_path_factory: pytest.TempPathFactory, internet: Internet) -> Iterator[Online]:
    installation = Online(tmp_path_factory.mktemp("online"), internet)
    yield installation
    installation.close()


@pytest.fixture
def online(_online: Online) -> Iterator[Online]:
    """The session's installation in the internet, without a box before and after."""
    yield _online
    _online.clear()

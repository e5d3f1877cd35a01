"""The session's internet with services of models, its installation, and the real agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import fs
from tests.support import agents
from tests.support import internet as internets
from tests.support.agents import NAMED
from tests.support.pasture import Pasture, Services

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def programs() -> Path:
    try:
        return agents.installed()
    except agents.NotInstalled as reason:
        pytest.skip(f"without the real agents: {reason}")


@pytest.fixture(scope="session")
def _pasture(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Pasture]:
    if absent := internets.missing():
        pytest.fail(f"missing: {', '.join(absent)}")
    services = Services(tmp_path_factory.mktemp("services"))
    installation = Pasture(tmp_path_factory.mktemp("pasture"), services, programs)
    yield installation
    installation.close()
    services.close()


@pytest.fixture
def pasture(_pasture: Pasture) -> Iterator[Pasture]:
    """The session's, without a box and without a secret, before and after."""
    _pasture.services.forget()
    yield _pasture
    _pasture.clear()
    for secret in {named.secret for named in NAMED}:
        _pasture.cli("secret", "rm", secret)
    for entry in _pasture.workspace.iterdir():
        fs.remove_tree(str(entry))

"""The session's internet with services of models, its installation, and the real agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import agents
from tests.support import internet as internets
from tests.support.agents import NAMED
from tests.support.pasture import Pasture, Services
from tests.support.perkind import PerKind

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
def _pastures(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[PerKind[Pasture]]:
    if absent := internets.missing():
        pytest.fail(f"missing: {', '.join(absent)}")
    new = tmp_path_factory.mktemp
    with (
        PerKind(lambda kind: Services(new(f"services-{kind}"))) as services,
        PerKind(lambda kind: Pasture(new(f"pasture-{kind}"), services.get(), programs)) as made,
    ):
        yield made


@pytest.fixture
def pasture(_pastures: PerKind[Pasture]) -> Iterator[Pasture]:
    """The session's for this kind, without a box and without a secret, before and after."""
    found = _pastures.get()
    found.services.forget()
    yield found
    found.clear()
    for secret in {named.secret for named in NAMED}:
        found.cli("secret", "rm", secret)
    found.sweep()

"""An internet of the tests' own, and an installation in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from tests.support import contract
from tests.support import internet as internets
from tests.support.internet import Internet, Online
from tests.support.perkind import PerKind

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def internets_of_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerKind[Internet]]:
    if absent := internets.missing():
        pytest.fail(f"missing: {', '.join(absent)}")
    with PerKind(lambda kind: Internet(tmp_path_factory.mktemp(f"internet-{kind}"))) as made:
        yield made


@pytest.fixture
def internet(internets_of_kinds: PerKind[Internet]) -> Internet:
    """The session's for this kind: a name that a gateway has looked up there is known to no other kind's."""
    return internets_of_kinds.get()


@pytest.fixture(scope="session")
def _onlines(
    tmp_path_factory: pytest.TempPathFactory, internets_of_kinds: PerKind[Internet]
) -> Iterator[PerKind[Online]]:
    with PerKind(lambda kind: Online(tmp_path_factory.mktemp(f"online-{kind}"), internets_of_kinds.get())) as made:
        yield made


@pytest.fixture
def online(_onlines: PerKind[Online]) -> Iterator[Online]:
    """The session's installation in that internet, without a box before and after; its workspace is emptied too."""
    if contract.current().template and os.geteuid() and ids.of_caller(0).count > 1:
        pytest.skip("the internet of who is not root is in a user namespace, where newuidmap gives no ids")
    found = _onlines.get()
    yield found
    found.clear()
    found.sweep()

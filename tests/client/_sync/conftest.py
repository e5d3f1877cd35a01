"""A box of the SDK's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation


@pytest.fixture
def box(paddock: Paddock, installation: Installation) -> Iterator[Box]:
    with paddock.create("sdk", workspace=str(installation.workspace)) as made:
        yield made

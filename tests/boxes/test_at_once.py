"""Several callers at the same moment: each gets its own box, and one box is made only once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock.client.answers import box_request
from tests.support import contract

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
CALLERS = 8


def test_boxes_made_at_once_get_names_of_their_own(installation: Installation) -> None:
    def make(_: int) -> str:
        with installation.sdk() as paddock:
            return paddock.create(workspace=str(installation.workspace)).name

    with ThreadPoolExecutor(CALLERS) as pool:
        names = list(pool.map(make, range(CALLERS)))
    assert len(set(names)) == CALLERS


def test_a_box_opened_at_once_by_several_is_made_once(installation: Installation) -> None:
    def enter(_: int) -> tuple[str, bool]:
        with installation.sdk() as paddock:
            box, new = paddock.open(box_request(workspace=str(installation.workspace)))
            return box.name, new

    with ThreadPoolExecutor(CALLERS) as pool:
        found = list(pool.map(enter, range(CALLERS)))
    assert len({name for name, _ in found}) == 1
    assert [new for _, new in found].count(True) == 1

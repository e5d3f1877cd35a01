"""A root caller's trees: whose they are on disk, and that a plan has no more of them than one message carries."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.process import trees
from paddock.errors import UserError
from paddock.model import Mount
from tests.support.engine import placed, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.engine import ProcessEngine
    from paddock.engines.process.warm import Launcher


box = pytest.mark.box


@given(st.integers(0, 1_000_000), st.integers(0, 9_999))
def test_an_owner_stands_for_the_boxs_user_and_every_other_id_for_itself(owner: int, index: int) -> None:
    subordinate = trees.subordinate_id(index)
    rows = [tuple(map(int, line.split())) for line in trees._swap(owner, subordinate).splitlines()]
    assert (owner, subordinate, 1) in rows
    assert len(rows) <= 340, "the kernel takes no more"
    for column in (0, 1):
        spans = sorted((row[column], row[column] + row[2]) for row in rows)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "no two overlap"
    for first, second, count in rows:
        assert first == second or count == 1


@box
@pytest.mark.privileged
def test_more_trees_than_one_message_carries_are_refused_by_number(host: Path) -> None:
    view = tuple(Mount(source=f"{host}/work/real", target=f"/mnt/{number}") for number in range(260))

    async def act(one: ProcessEngine, _: Launcher) -> None:
        with pytest.raises(UserError, match="253 mounts"):
            await one.start(dataclasses.replace(placed(host), view=view))

    within(host, act)

"""Checkpoints are known by their boxes, and outlive the database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import paths
from paddock.runtime import checkpoints, freezing, restoring, space
from tests.support.killing import View, stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_a_lost_database_loses_no_checkpoint(home: Path) -> None:
    from paddock.runtime.rebuild import rebuild

    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        await freezing.create(runtime, box, "first")
        write(box, "two")

    within(home, prepared)
    rebuild(paths.Paths({"PADDOCK_HOME": os.fspath(home)}))

    async def after(runtime: Runtime) -> None:
        await space.prune(runtime)
        assert [info.name for info in await checkpoints.listed(runtime)] == ["first"]
        await restoring.restore(runtime, "mine@first")
        assert view(runtime, runtime.find("mine")) == views[0]

    within(home, after)

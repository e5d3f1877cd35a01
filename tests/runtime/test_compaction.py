"""Chains that have grown long are shortened; nobody sees another file, and whoever is killed meanwhile loses none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.images.layers import Layers
from paddock.runtime import boxparts, compaction, forking, freezing, restoring, space
from tests.support.killing import View, every_step, stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


pytestmark = pytest.mark.box  # by the jailed process that unpacks images


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


async def grown(runtime: Runtime, times: int = 4) -> dict[str, View]:
    """What each checkpoint of the box holds."""
    box = runtime.find("mine")
    views = {}
    for number in range(times):
        write(box, f"w{number}" if number % 2 else "one")
        views[f"c{number}"] = view(runtime, box)
        await freezing.create(runtime, box, f"c{number}")
    return views


async def _same(runtime: Runtime, views: dict[str, View]) -> None:
    for name, seen in views.items():
        await restoring.restore(runtime, f"mine@{name}")
        assert view(runtime, runtime.find("mine")) == seen, name


def test_who_stands_on_all_stands_on_one_and_sees_the_same(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        views = await grown(runtime)
        box = runtime.find("mine")
        (end,) = await forking.fork(runtime, "mine@c3")
        (middle,) = await forking.fork(runtime, "mine@c1")
        seen = [view(runtime, one) for one in (box, end, middle)]
        for chain in list(boxparts.uppers(box.row.spec).values()):
            await compaction.shorten(runtime, tuple(layer for layer in chain if layer[0] != "/"))
        assert [len(one.row.spec.home_layers) for one in (box, end, middle)] == [1, 1, 2]
        assert len(box.row.spec.layers) == 2, "its template stays what it is"
        assert [view(runtime, one) for one in (box, end, middle)] == seen
        await space.prune(runtime)
        await _same(runtime, views)
        await runtime.remove("mine", force=True)
        await space.prune(runtime)
        assert [view(runtime, one) for one in (end, middle)] == seen[1:], "no fork is broken"

    within(home, act)


def test_it_begins_by_itself_when_a_chain_is_long(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.limits.COMPACT_LAYERS_MAX", 3)

    async def act(runtime: Runtime) -> None:
        views = await grown(runtime, 9)
        box = runtime.find("mine")
        await _until_done(runtime, box)
        assert len(box.row.spec.home_layers) <= 9 - 3
        await _same(runtime, views)

    within(home, act)


async def _until_done(runtime: Runtime, box: Box) -> None:
    import asyncio

    while box.compacting:
        await asyncio.gather(*(task for task in runtime.background._tasks if "merge" in task.get_name()))


def test_a_box_that_runs_keeps_what_is_mounted(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await grown(runtime)
        box = runtime.find("mine")
        chain = box.row.spec.home_layers
        box.handle = object()  # type: ignore[assignment]
        try:
            await compaction.shorten(runtime, chain)
        finally:
            box.handle = None
        assert box.row.spec.home_layers == chain
        assert {*chain} <= {*Layers(runtime.paths.layers).whole()}
        await compaction.shorten(runtime, chain)
        assert len(box.row.spec.home_layers) == 1, "the oracle: it was that it ran"

    within(home, act)


def test_a_merge_that_is_killed_at_any_step_loses_nothing(home: Path) -> None:
    views: dict[str, View] = {}

    async def prepared(runtime: Runtime) -> None:
        views.update(await grown(runtime, 3))

    within(home, prepared)

    async def merge(runtime: Runtime, box: Box) -> None:
        await compaction.shorten(runtime, box.row.spec.home_layers)

    def check(runtime: Runtime) -> None:
        box = runtime.find("mine")
        assert view(runtime, box) == views["c2"]
        for row in runtime._store.checkpoints():
            assert {layer for layer in row.layers if layer[0] != "/"} <= {*Layers(runtime.paths.layers).whole()}

    assert every_step(home, merge, check) > 10
    within(home, lambda runtime: _same(runtime, views))

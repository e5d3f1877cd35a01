"""Chains that have grown long are shortened; nobody sees another file, and whoever is killed meanwhile loses none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.images.layers import Layers
from paddock.model import BoxRequest, EngineName
from paddock.model.reference import Reference
from paddock.runtime import boxparts, boxsaving, compaction, forking, freezing, restoring, space
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


def test_forks_and_saves_shorten_a_chain_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACT_LAYERS_MAX", 3)

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        for number in range(4):
            write(box, f"w{number}")
            await forking.fork(runtime, "mine")
        seen = view(runtime, box)
        await _until_done(runtime, box)
        assert [len(chain) for chain in boxparts.uppers(box.row.spec).values()] == [2, 1]
        for _ in range(3):
            await boxsaving.save(runtime, box, Reference.parse("team:v1"))
        await _until_done(runtime, box)
        assert [len(chain) for chain in boxparts.uppers(box.row.spec).values()] == [2, 1]
        assert view(runtime, box) == seen

    within(home, act)


def test_at_the_limit_whatever_can_be_is_merged_and_the_box_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no chain is long by itself; while it runs it keeps what is mounted, and is told to stop."""

    async def act(runtime: Runtime) -> None:
        views = await grown(runtime, 3)
        box = runtime.find("mine")
        await _until_done(runtime, box)
        monkeypatch.setattr(limits, "LAYERS_PER_BOX", 7)
        for _ in range(2):
            box.handle = object()  # type: ignore[assignment]
            with pytest.raises(UserError, match="is made of 7 layers") as caught:
                await freezing.create(runtime, box, "more")
            assert "`paddock stop mine`, and try again" in caught.value.hint
            await _until_done(runtime, box)
            box.handle = None
        assert len(boxparts.standing_on(box.row.spec)) == 7
        with pytest.raises(UserError, match="is made of 7 layers"):
            await forking.fork(runtime, "mine")
        await _until_done(runtime, box)
        assert len(boxparts.standing_on(box.row.spec)) == 3
        (fork,) = await forking.fork(runtime, "mine")
        assert view(runtime, fork) == view(runtime, box) == views["c2"]
        await _same(runtime, views)

    within(home, act)


OWN = tuple(f"frozen:{number}" for number in range(3))


@pytest.mark.parametrize(
    ("below", "base"),
    [
        ((), ""),
        (("/dir",), "/dir"),
        (("sha256:a", "frozen:run"), "frozen:run"),
        (("sha256:a", "frozen:run", "sha256:copy"), "sha256:copy"),
        (("sha256:a", "frozen:run", "squashed:copy"), ""),  # a box that was made before this was known
    ],
)
def test_what_was_frozen_since_the_template_is_the_boxs_own(below: tuple[str, ...], base: str) -> None:
    assert compaction._own((*below, *OWN), base) == OWN


def test_layers_of_a_template_stay_what_its_boxes_share(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a box froze, as each RUN is one."""
    monkeypatch.setattr(limits, "COMPACT_LAYERS_MAX", 2)

    async def act(runtime: Runtime) -> None:
        old = runtime.find("mine")
        shared = (await boxsaving.save(runtime, old, Reference.parse("team:v1"))).chain
        assert shared[-1].startswith("frozen:")
        wanted = BoxRequest(
            name="new", workspace=old.row.spec.workspace, engine=EngineName.CONTAINER, template="team:v1"
        )
        box = await runtime.create(wanted)
        for number in range(4):
            write(box, f"w{number}")
            await freezing.create(runtime, box)
            await _until_done(runtime, box)
        assert box.row.spec.layers[: len(shared)] == shared
        assert len(box.row.spec.layers) < len(shared) + 4

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


def test_two_merges_at_once_leave_no_checkpoint_on_layers_that_are_gone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One knew a chain before the other put a longer piece of it into one layer, and removed the rest."""

    async def act(runtime: Runtime) -> None:
        views = await grown(runtime)
        chain = runtime.find("mine").row.spec.home_layers
        set_chain = runtime.register.set_chain

        async def late(*args: Any) -> None:
            monkeypatch.setattr(runtime.register, "set_chain", set_chain)
            await compaction.shorten(runtime, chain)
            await set_chain(*args)

        monkeypatch.setattr(runtime.register, "set_chain", late)
        await compaction.shorten(runtime, chain[:2])
        assert runtime.register.set_chain == set_chain, "the oracle: there was something to set"
        await _same(runtime, views)

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

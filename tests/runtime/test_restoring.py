"""A restore that is killed at any step is done, or was never begun."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images.layers import Layers
from paddock.runtime import boxparts, checkpoints, differing, freezing, restoring
from tests.support.killing import View, every_step, stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

pytestmark = pytest.mark.box  # of its programs, which take their time


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


async def two(runtime: Runtime) -> list[View]:
    """Checkpoints `first` and `second` of a box, and what it was then."""
    box = runtime.find("mine")
    views = [view(runtime, box)]
    await freezing.create(runtime, box, "first")
    write(box, "two")
    views.append(view(runtime, box))
    await freezing.create(runtime, box, "second")
    return views


def test_a_restore_that_is_killed_at_any_step_is_done_or_not(home: Path) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        views.extend(await two(runtime))

    within(home, prepared)

    async def restore(runtime: Runtime, _box: Box) -> None:
        await restoring.restore(runtime, "mine@first")

    seen: list[int] = []

    def check(runtime: Runtime) -> None:
        box = runtime.find("mine")
        seen.append(views.index(view(runtime, box)))
        assert not os.path.exists(f"{box.directory}/incoming")

    assert every_step(home, restore, check) > 20
    assert seen == sorted(seen, reverse=True), "from a certain step on it is done"
    assert seen[0] > seen[-1]


def test_a_checkpoint_that_went_while_the_box_was_busy_is_not_restored(home: Path) -> None:
    """It was there when it was asked for, and its layers may be pruned by now."""

    async def act(runtime: Runtime) -> None:
        views = await two(runtime)
        box = runtime.find("mine")
        async with box.lock:
            waits = asyncio.create_task(restoring.restore(runtime, "mine@first"))
            while not box.lock._waiters:
                await asyncio.sleep(0.001)
            await runtime.register.drop_checkpoint(box, (await runtime.register.checkpoints(box))[0].id)
        with pytest.raises(UserError, match="no checkpoint 'first'"):
            await waits
        assert view(runtime, box) == views[1]

    within(home, act)


def test_layers_stay_until_the_row_of_the_box_names_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(runtime: Runtime) -> None:
        views = await two(runtime)
        box = runtime.find("mine")
        layers = Layers(runtime.paths.layers)
        row = (await runtime.register.checkpoints(box))[0]
        begin = runtime.register.begin_restore
        gone: list[str] = []

        async def late(*args: object) -> None:
            gone.extend(layers.discard(lambda: boxparts.standing_on(box.row.spec)))
            await begin(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(runtime.register, "begin_restore", late)
        await restoring.restore(runtime, "mine@first")
        assert not {*gone} & {*row.layers}
        assert view(runtime, box) == views[0]

    within(home, act)


def test_after_a_restore_that_failed_nothing_is_made_of_half_a_box(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say: until it is finished nobody starts or freezes it, and the next restore finishes it first."""

    async def act(runtime: Runtime) -> None:
        views = await two(runtime)
        box = runtime.find("mine")
        renew = boxparts.renew

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(boxparts, "renew", full)
        with pytest.raises(OSError, match="No space"):
            await restoring.restore(runtime, "mine@first")
        for refused in (
            runtime.lifetimes.start(box),
            freezing.create(runtime, box, "half"),
            differing.difference(runtime, "mine", "mine@first"),
            checkpoints.remove(runtime, "mine@first"),
        ):
            with pytest.raises(Unavailable, match="not yet what it is restored to"):
                await refused
        with pytest.raises(OSError, match="No space"):
            await restoring.restore(runtime, "mine@second")
        assert os.path.isdir(f"{box.directory}/incoming"), "it is still refused"
        monkeypatch.setattr(boxparts, "renew", renew)
        await restoring.restore(runtime, "mine@second")
        assert view(runtime, box) == views[1]
        assert await runtime.register.restoring(box) == ""
        assert not os.path.exists(f"{box.directory}/incoming")

    within(home, act)

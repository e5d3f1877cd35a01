"""Forks stand for themselves, and one that is killed at any step is whole or not there."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.runtime import boxparts, forking, freezing, space
from tests.support.killing import View, every_step, look, stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

pytestmark = pytest.mark.box  # of its programs, which take their time


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_a_fork_that_is_killed_at_any_step_is_whole_or_not_there(home: Path) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await freezing.create(runtime, box, "first")
        views.append(view(runtime, box))
        write(box, "two")

    within(home, prepared)

    async def fork(runtime: Runtime, _box: Box) -> None:
        await forking.fork(runtime, "mine@first")

    def check(runtime: Runtime) -> None:
        for box in runtime.boxes.values():
            if box.name != "mine":
                assert view(runtime, box) == views[0]
        assert view(runtime, runtime.find("mine"))["etc/two"] == "two"
        assert {*os.listdir(runtime.paths.boxes)} == {*runtime.boxes}

    assert every_step(home, fork, check) > 10


def test_what_a_fork_freezes_is_no_checkpoint_when_it_is_killed(home: Path) -> None:
    views: list[View] = []
    look(home, lambda runtime: views.append(view(runtime, runtime.find("mine"))))

    async def fork(runtime: Runtime, _box: Box) -> None:
        await forking.fork(runtime, "mine")

    def check(runtime: Runtime) -> None:
        assert all(view(runtime, box) == views[0] for box in runtime.boxes.values())
        assert runtime._store.checkpoints() == [], "the box could not be removed for it"

    assert every_step(home, fork, check) > 20


async def left_at_work(runtime: Runtime, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork whose caller goes while the first uppers are made anew."""
    at_work, may_go_on = threading.Event(), threading.Event()
    renew = boxparts.renew

    def slow(*args: object) -> None:
        at_work.set()
        assert may_go_on.wait(60)
        renew(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(boxparts, "renew", slow)
    forked = asyncio.create_task(forking.fork(runtime, word))
    assert await asyncio.to_thread(at_work.wait, 60)
    forked.cancel()
    asyncio.get_running_loop().call_later(0.01, may_go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await forked


def test_who_leaves_while_it_freezes_leaves_no_checkpoint(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(runtime: Runtime) -> None:
        await left_at_work(runtime, "mine", monkeypatch)
        assert len(runtime.find("mine").row.spec.home_layers) == 1, "it was frozen"
        assert await runtime.register.checkpoints() == []
        await runtime.remove("mine", force=False)

    within(home, act)


def test_a_box_that_is_removed_meanwhile_has_its_forks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"))
        write(runtime.find("mine"), "two")
        was = view(runtime, runtime.find("mine"))
        add = runtime.add

        async def late(box: Box, *args: object) -> Box:
            if box in runtime.register:
                await runtime.remove(box.name, force=True)
                await space.prune(runtime)
            return await add(box, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(runtime, "add", late)
        forks = await forking.fork(runtime, "mine", 2)
        assert [*runtime.boxes.values()] == forks
        assert [view(runtime, one) for one in forks] == [was, was]

    within(home, act)


def test_ten_forks_are_independent_and_outlive_what_they_came_from(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was = view(runtime, box)
        forks = await forking.fork(runtime, "mine", 10)
        assert len({one.name for one in forks}) == 10
        assert await runtime.register.checkpoints() == [], "what it was made by is nobody's"
        for number, one in enumerate(forks):
            assert view(runtime, one) == was
            write(one, f"w{number}")
        await runtime.remove("mine", force=True)
        await space.prune(runtime)
        for number, one in enumerate(forks):
            assert view(runtime, one) == was | {
                f"etc/w{number}": f"w{number}",
                **dict.fromkeys(("etc/below", "etc/same", "home:sub/file"), f"w{number}"),
            }
        with pytest.raises(UserError, match="at once"):
            await forking.fork(runtime, forks[0].name, 0)

    within(home, act)


def test_a_fork_that_nobody_waits_for_any_more_is_gone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are still being put in place when who asked for it leaves."""

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await freezing.create(runtime, box, "first")
        await left_at_work(runtime, "mine@first", monkeypatch)
        assert [*runtime.boxes] == [box.row.id] == os.listdir(runtime.paths.boxes)

    within(home, act)

"""Making a checkpoint is crash-safe: killed at any step it is there or not, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.images.layers import LayerId, Layers
from paddock.model import check_name
from paddock.model.reference import Reference
from paddock.runtime import apart, boxparts, boxsaving, flushing, forking, freezing, memory, space
from paddock.store import Store
from tests.support.killing import View, every_step, look, stopped_box, view, within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

pytestmark = pytest.mark.box  # of its programs, which take their time


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_a_checkpoint_that_is_killed_at_any_step_is_there_or_not(home: Path) -> None:
    views: list[View] = []
    look(home, lambda runtime: views.append(view(runtime, runtime.find("mine"))))
    assert views == [{"etc/one": "one", "etc/same": "one", "home:sub/file": "one"}]

    async def create(runtime: Runtime, box: Box) -> None:
        await freezing.create(runtime, box)

    def check(runtime: Runtime) -> None:
        assert view(runtime, runtime.find("mine")) == views[0]
        rows = runtime._store.checkpoints()
        assert all(row.is_whole for row in rows)
        for row in rows:
            assert {layer for layer in row.layers if layer[0] != "/"} <= {*Layers(runtime.paths.layers).whole()}

    assert every_step(home, create, check) > 20

    async def pruned(runtime: Runtime) -> None:
        await space.prune(runtime)
        check(runtime)
        used = {layer for layer in runtime.register.layers() if layer[0] != "/"}
        assert {*Layers(runtime.paths.layers).whole()} == used

    within(home, pruned)


def test_a_full_disk_leaves_the_box_as_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database cannot say that the layer is the box's: then it is not."""

    def full(_store: Store, _checkpoint: str) -> None:
        raise Unavailable("cannot write: no room", code="disk")

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was, row = view(runtime, box), box.row
        with open(f"{box.directory}/box.json", "rb") as file:
            record = file.read()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "finish_checkpoint", full)
            with pytest.raises(Unavailable, match="no room"):
                await freezing.create(runtime, box)
        assert (view(runtime, box), box.row) == (was, row)
        with open(f"{box.directory}/box.json", "rb") as file:
            assert file.read() == record
        assert await runtime.register.checkpoints() == []
        await freezing.create(runtime, box)
        assert view(runtime, box) == was

    within(home, act)


def test_one_that_is_undone_and_killed_meanwhile_loses_nothing(home: Path) -> None:
    """The root is the box's own again before the home is: a home that is found frozen must not speak for both."""
    views: list[View] = []
    look(home, lambda runtime: views.append(view(runtime, runtime.find("mine"))))

    async def fail(runtime: Runtime, box: Box) -> None:
        def full(_checkpoint: str) -> None:
            raise Unavailable("cannot write: no room", code="disk")

        runtime._store.finish_checkpoint = full  # type: ignore[method-assign,assignment]
        with pytest.raises(Unavailable, match="no room"):
            await freezing.create(runtime, box)

    def check(runtime: Runtime) -> None:
        assert view(runtime, runtime.find("mine")) == views[0]

    assert every_step(home, fail, check) > 20


def test_who_fails_after_a_directory_was_moved_loses_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with the ids of boxes moves it, and is killed before it can say so."""

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was = view(runtime, box)
        move = apart.move
        for part in ("root/upper", "home"):

            def moved(source: str, target: str, part: str = part) -> None:
                move(source, target)
                if source.endswith(part):
                    raise Unavailable("the program for it died", code="os")

            with monkeypatch.context() as patch:
                patch.setattr(apart, "move", moved)
                with pytest.raises(Unavailable, match="died"):
                    await freezing.create(runtime, box)
            assert view(runtime, box) == was
            assert await runtime.register.checkpoints() == []
        await freezing.create(runtime, box)
        assert view(runtime, box) == was

    within(home, act)


WAYS: dict[str, Callable[[Runtime, Box], Awaitable[object]]] = {
    "checkpoint": freezing.create,
    "fork": lambda runtime, box: forking.fork(runtime, box.name),
    "save": lambda runtime, box: boxsaving.save(runtime, box, Reference.parse("team:v1")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_box_that_can_stand_on_no_more_layers_is_not_frozen(
    home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Root and home together: who starts it passes both at once."""

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await freezing.create(runtime, box)
        was = box.row.spec
        with monkeypatch.context() as patch:
            patch.setattr(limits, "LAYERS_PER_BOX", 3)
            with pytest.raises(UserError, match="mine is made of 3 layers") as caught:
                await WAYS[way](runtime, box)
        assert (caught.value.code, "made anew" in caught.value.hint) == ("too-many", True), "there is nothing to merge"
        assert box.row.spec == was
        await WAYS[way](runtime, box)
        assert len(boxparts.standing_on(box.row.spec)) == 5, "the oracle: it was the limit"

    within(home, act)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_frozen_is_flushed_when_that_was_acknowledged(
    home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(_place: str) -> None:
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr(flushing, "sync", slow)

    async def act(runtime: Runtime) -> None:
        await WAYS[way](runtime, runtime.find("mine"))
        try:
            assert "begun" in repr(runtime.flushing)
            assert await asyncio.to_thread(begun.wait, 60)
        finally:
            may_end.set()

    within(home, act)


def test_a_daemon_that_ends_waits_for_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []

    def slow(place: str) -> None:
        threading.Event().wait(0.1)
        ends.append(place)

    monkeypatch.setattr(flushing, "sync", slow)

    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"))
        assert ends == []

    within(home, act)
    assert len(ends) == 1


def test_no_user_can_give_the_name_of_one_that_passes() -> None:
    with pytest.raises(UserError):
        check_name(freezing.passing_name("fork"))


@pytest.mark.parametrize("is_room", [True, False])
def test_what_ran_is_there_until_the_box_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch, *, is_room: bool) -> None:
    """The freeze may fail after the engine saved it: then no row names its layer."""
    found: list[str] = []

    async def save(_runtime: Runtime, box: Box, *, stop: bool) -> str:
        path = f"{box.directory}/{boxparts.MEMORY}"
        os.makedirs(path)
        return path

    async def go_on_after(runtime: Runtime, _box: Box, saved: str, layer: str) -> None:
        assert not os.path.exists(saved)
        await space.prune(runtime)
        found.append(Layers(runtime.paths.layers).tree(LayerId(layer)))

    def full(_store: Store, _checkpoint: str) -> None:
        raise Unavailable("cannot write: no room", code="disk")

    monkeypatch.setattr(memory, "save", save)
    monkeypatch.setattr(memory, "go_on_after", go_on_after)

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        if is_room:
            await freezing.create(runtime, box)
        else:
            monkeypatch.setattr(Store, "finish_checkpoint", full)
            with pytest.raises(Unavailable, match="no room"):
                await freezing.create(runtime, box)
        assert len(found) == 1
        await space.prune(runtime)
        assert os.path.exists(found[0]) == is_room, "and no longer than somebody needs it"

    within(home, act)

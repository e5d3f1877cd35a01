"""Making a checkpoint is crash-safe: killed at any step it is there or not, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.images.layers import Layers
from paddock.runtime import apart, freezing, space
from paddock.store import Store
from tests.support.killing import View, every_step, look, stopped_box, view, within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


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

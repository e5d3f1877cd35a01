"""A review box is told what changed under it, and begins anew only when nobody in it knows better.

Here the kernel's part is a handle that counts; tests/boxes/test_stale.py has real boxes.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.model import BoxId, BoxSpec, Evidence, WorkspaceMode
from paddock.runtime import staleness as module
from paddock.runtime.box import Box
from paddock.runtime.staleness import Staleness
from paddock.store import new_row
from paddock.workspace import review, state

if TYPE_CHECKING:
    from pathlib import Path


class Held:
    """A running box, as far as this is concerned."""

    evidence = Evidence(pid=1, start_ticks=0, boot_id="")
    pidfd = -1
    keeps_names = False

    def __init__(self) -> None:
        self.refreshed = 0
        self.idle = True
        self.works = True

    def refresh(self) -> bool:
        self.refreshed += 1
        return self.works

    def is_idle(self) -> bool:
        return self.idle

    def ended(self) -> bool:
        return False

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.workspace = tmp_path / "workspace"
        (self.workspace / "src").mkdir(parents=True)
        (self.workspace / "src/file").write_text("x", "utf-8")
        state.await_tick()
        self.boxes: dict[BoxId, Box] = {}
        self.staleness = Staleness(self.boxes)

    async def started(self, name: str, mode: WorkspaceMode = WorkspaceMode.REVIEW, below: str = "") -> tuple[Box, Held]:
        spec = BoxSpec(
            name=name, agent="shell", workspace=os.fspath(self.workspace / below), mode=mode, caller_home="/nonexistent"
        )
        directory = self.tmp_path / name
        directory.mkdir()
        box = self.boxes[BoxId(name)] = Box(new_row(BoxId(name), spec, set()), os.fspath(directory))
        box.in_place = True
        await self.staleness.entered(box)
        if mode is WorkspaceMode.REVIEW:
            with review.at(spec.workspace, box.directory) as layers:
                layers.opened()
        state.await_tick()
        handle = Held()
        box.handle = handle
        return box, handle

    async def told(self, box: Box, handle: Held) -> str:
        assert await self.staleness.look_again(box, handle)
        return "; ".join(box.told())


def epochs(box: Box) -> int:
    return state.load(f"{box.directory}/review/state").epochs[-1].wall_ns


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_the_host_changes_is_told_to_every_box_of_the_workspace_once(scene: Scene) -> None:
    async def run() -> None:
        one, other, live = (
            await scene.started("one"),
            await scene.started("other"),
            await scene.started("live", WorkspaceMode.LIVE),
        )
        assert [await scene.told(*box) for box in (one, other, live)] == ["", "", ""]
        (scene.workspace / "src/file").write_text("y", "utf-8")
        words = "the workspace changed on the host at src/file: the box sees the workspace as it is now"
        assert [await scene.told(*box) for box in (one, other, live)] == [words, words, ""]
        assert [await scene.told(*box) for box in (one, other, live)] == ["", "", ""]
        assert one[1].refreshed == 3, "it looks again whatever we know"
        scene.staleness.close()

    asyncio.run(run())


def test_a_box_that_starts_later_is_not_told_what_was_there_before_it(scene: Scene) -> None:
    async def run() -> None:
        one = await scene.started("one")
        await scene.told(*one)
        (scene.workspace / "src/file").write_text("y", "utf-8")
        state.await_tick()
        other = await scene.started("other")
        assert await scene.told(*other) == ""
        assert "src/file" in await scene.told(*one)
        scene.staleness.close()

    asyncio.run(run())


def test_an_epoch_begins_with_what_was_told_when_nothing_runs(scene: Scene) -> None:
    async def run() -> None:
        box, handle = await scene.started("one")
        await scene.told(box, handle)
        first = epochs(box)
        await scene.told(box, handle)
        assert epochs(box) == first, "nothing changed"
        handle.idle = False
        (scene.workspace / "src/file").write_text("y", "utf-8")
        state.await_tick()
        assert "src/file" in await scene.told(box, handle)
        assert epochs(box) == first, "something runs that knew what was before"
        handle.idle = True
        assert await scene.told(box, handle) == ""
        assert epochs(box) > first, "it waited for that alone"
        scene.staleness.close()

    asyncio.run(run())


def test_a_box_that_cannot_look_again_is_started_anew_or_says_so(scene: Scene) -> None:
    async def run() -> None:
        box, handle = await scene.started("one")
        handle.works = False
        assert not await scene.staleness.look_again(box, handle)
        handle.idle = False
        assert "paddock stop one" in await scene.told(box, handle)
        scene.staleness.close()

    asyncio.run(run())


def test_an_apply_is_told_to_those_whose_workspace_it_touched(scene: Scene) -> None:
    async def run() -> None:
        one, other, inner = (
            await scene.started("one"),
            await scene.started("other"),
            await scene.started("inner", below="src"),
        )
        for box in (one, other, inner):
            await scene.told(*box)
        scene.staleness.touched(one[0], "applied (one)", ["top"], more=False)
        assert one[1].refreshed == 2, "at once"
        assert [bool(await scene.told(*box)) for box in (one, other, inner)] == [True, True, False]
        scene.staleness.touched(one[0], "applied (one)", ["top", "src/file"], more=False)
        assert (await scene.told(*inner)).startswith("applied (one) to file: ")
        scene.staleness.touched(inner[0], "applied (inner)", ["file"], more=False)
        assert "applied (inner) to src/file: " in await scene.told(*other)
        scene.staleness.touched(one[0], "discarded (one)", [], more=False)
        await scene.told(*inner)  # its own apply
        assert [bool(await scene.told(*box)) for box in (other, inner)] == [False, False]
        scene.staleness.touched(one[0], "interrupted (one)", [], more=True)
        assert "interrupted (one): " in await scene.told(*inner), "what is not known may be anywhere"
        scene.staleness.close()

    asyncio.run(run())


def test_the_last_box_takes_the_watch_with_it(scene: Scene) -> None:
    async def run() -> None:
        one, other = await scene.started("one"), await scene.started("other")
        await scene.told(*one)
        assert repr(scene.staleness) == "<Staleness 1 workspaces watched>"
        for box, said in ((one, "1"), (other, "0")):
            box[0].in_place = False
            await scene.staleness.left(box[0])
            assert repr(scene.staleness) == f"<Staleness {said} workspaces watched>"

    asyncio.run(run())


def test_where_not_everything_can_be_watched_the_top_is_looked_at(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REVIEW_WATCHES_MAX", 0)

    async def run() -> None:
        box = await scene.started("one")
        assert await scene.told(*box) == ""
        (scene.workspace / "src/file").write_text("y", "utf-8")
        assert await scene.told(*box) == "", "this is what is not told"
        (scene.workspace / "new").touch()
        assert "the workspace changed on the host: " in await scene.told(*box)
        scene.staleness.close()

    asyncio.run(run())


def test_a_watch_begins_by_itself_a_moment_after_the_start(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SETTLED_S", 0.0)

    async def run() -> None:
        box, handle = await scene.started("one")
        (scene.workspace / "src/file").write_text("y", "utf-8")
        await scene.staleness.attend(box)
        assert box.sight.is_watched
        assert "src/file" in await scene.told(box, handle), "what changed before is found by its time"
        scene.staleness.close()

    asyncio.run(run())

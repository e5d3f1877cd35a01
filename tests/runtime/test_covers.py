"""When names are covered again: at an event, before a command, without events too; and what if they cannot be."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

import pytest

from paddock import limits
from paddock.engines.base import LINK, Engine, Handle, Placement
from paddock.errors import Unavailable
from paddock.fs.births import born
from paddock.model import BoxId, BoxSpec
from paddock.runtime.box import Box
from paddock.runtime.covers import Covers
from paddock.store import new_row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path


class Stage:
    """An engine that counts and may fail, and a runtime that remembers what it ended."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.asked = 0
        self.again: tuple[str, ...] = ()
        self.problem: Unavailable | None = None
        self.ended: list[str] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.covers = Covers(lambda _: cast("Engine", self), self._condemn, self._later)

    def covered(self, _placement: Placement) -> dict[str, tuple[int, ...]]:
        return {path: born(path) for path in (f"{self.place}/{name}" for name in (".env", "way", "way/.git"))}

    async def cover(self, _placement: Placement, _handle: Handle) -> tuple[str, ...]:
        self.asked += 1
        if self.problem:
            raise self.problem
        return self.again

    def box(self, name: str = "one") -> Box:
        spec = BoxSpec(name=name, agent="shell", workspace=str(self.place))
        box = Box(new_row(BoxId(name), spec, set()), str(self.place))
        box.handle = cast("Handle", object())
        self.covers.add(box)
        return box

    def _condemn(self, box_id: BoxId, reason: str) -> None:
        self.ended.append(f"{box_id}: {reason}")

    def _later(self, coroutine: Coroutine[None, None, None], _name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.asked < times:
                await asyncio.sleep(0.001)


def play(place: Path, act: Callable[[Stage], Awaitable[None]]) -> Stage:
    (place / "way").mkdir()
    (place / ".env").touch()

    async def run() -> Stage:
        stage = Stage(place)
        try:
            await act(stage)
        finally:
            for task in stage.tasks:
                task.cancel()
            stage.covers.close()
        return stage

    return asyncio.run(run())


def replace(place: Path) -> None:
    (place / "fresh").touch()
    (place / "fresh").replace(place / ".env")


def test_a_name_that_is_replaced_is_covered_in_every_box_that_has_it(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        one, other = stage.box("one"), stage.box("other")
        assert repr(stage.covers) == "<Covers in 2 boxes>"
        replace(tmp_path)
        await stage.until_asked(2)
        stage.covers.remove(one)
        replace(tmp_path)
        await stage.until_asked(3)
        stage.covers.remove(other)
        stage.covers.remove(other)
        replace(tmp_path)
        for box in (one, other):
            await stage.covers.check(box)

    assert play(tmp_path, act).asked == 3


def test_a_directory_that_is_made_anew_is_heard(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        box = stage.box()
        for number in range(2):
            (tmp_path / "way").rename(tmp_path / f"away{number}")
            (tmp_path / "way").mkdir()
            await stage.until_asked(1)
            await stage.covers.check(box)
            before = stage.asked
            (tmp_path / "way/.git").mkdir()
            await stage.until_asked(before + 1)
            await stage.covers.check(box)

    play(tmp_path, act)


def test_a_flood_of_replacements_is_one_now_and_then(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        box = stage.box()
        began = asyncio.get_running_loop().time()
        for _ in range(300):
            replace(tmp_path)
            await asyncio.sleep(0)
        await stage.covers.check(box)
        took_s = asyncio.get_running_loop().time() - began
        assert 1 <= stage.asked <= took_s / limits.COVER_SPACING_S + 2

    play(tmp_path, act)


def test_a_command_waits_for_what_nobody_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COVERED_DIRECTORIES_MAX", 0)
    monkeypatch.setattr(limits, "COVER_POLL_S", 1000.0)

    async def act(stage: Stage) -> None:
        box = stage.box()
        await asyncio.sleep(0.01)  # the first poll is over
        await stage.covers.check(box)
        assert stage.asked == 0
        replace(tmp_path)
        await stage.covers.check(box)
        assert stage.asked == 1
        await stage.covers.check(box)
        assert stage.asked == 1

    play(tmp_path, act)


def test_without_events_the_names_are_looked_at_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COVERED_DIRECTORIES_MAX", 0)
    monkeypatch.setattr(limits, "COVER_POLL_S", 0.01)

    async def act(stage: Stage) -> None:
        stage.box()
        for times in (1, 2):
            replace(tmp_path)
            await stage.until_asked(times)

    play(tmp_path, act)


def test_a_box_that_cannot_be_covered_is_ended_and_gets_no_command(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.problem = Unavailable("no way", code="cover")
        box = stage.box()
        replace(tmp_path)
        with pytest.raises(Unavailable, match="no way"):
            await stage.covers.check(box)
        assert stage.ended == ["one: no way"]
        replace(tmp_path)
        with pytest.raises(Unavailable, match="no way"):
            await stage.covers.check(box)

    assert play(tmp_path, act).asked == 4, "it is tried again, for a while"


def test_what_helps_against_a_passing_problem_does_not_help_against_a_link(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.problem = Unavailable("a link", code=LINK)
        box = stage.box()
        replace(tmp_path)
        with pytest.raises(Unavailable, match="a link"):
            await stage.covers.check(box)

    assert play(tmp_path, act).asked == 1


def test_the_user_hears_of_a_repository_once_and_of_a_file_never(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.again = (f"{tmp_path}/.env", f"{tmp_path}/way/.git")
        box = stage.box()
        for _ in range(2):
            replace(tmp_path)
            await stage.covers.check(box)
        (note,) = box.told()
        assert note.startswith(f"{tmp_path}/way/.git was replaced while the box ran")

    play(tmp_path, act)
    assert os.path.exists(tmp_path / ".env")

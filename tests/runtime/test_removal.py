"""What a removal refuses without a box that runs; tests/boxes/test_removing.py has those with one."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import WorkspaceMode
from paddock.reports import RemovalInfo
from tests.runtime.test_homecoming import twin
from tests.support.serving import request, running
from tests.workspace.scenes import commit, git, make_repository

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.runtime import Runtime


def within(tmp_path: Path, act: Callable[[Runtime, Path], Awaitable[None]]) -> None:
    place = make_repository(tmp_path / "workspace")

    async def run() -> None:
        async with running(tmp_path) as runtime:
            await act(runtime, place)

    asyncio.run(run())


def test_a_review_goes_only_by_the_word_of_who_looked(tmp_path: Path) -> None:
    async def act(runtime: Runtime, place: Path) -> None:
        wanted = replace(request(place, name="mine"), mode=WorkspaceMode.REVIEW)
        box = await runtime.create(wanted)
        os.makedirs(f"{box.directory}/review/upper/dir")
        with pytest.raises(UserError, match="not applied"):
            await runtime.remove("mine", force=False)
        assert [info.kept != "" for info in await runtime.prune()] == []
        assert await runtime.remove("mine", force=False, reviewed=True) == RemovalInfo(box="mine")
        await runtime.create(wanted)
        assert await runtime.remove("mine", force=False) == RemovalInfo(box="mine"), "an empty one holds nothing"

    within(tmp_path, act)


def test_a_box_of_one_command_has_no_review(tmp_path: Path) -> None:
    async def act(runtime: Runtime, place: Path) -> None:
        wanted = replace(request(place), mode=WorkspaceMode.REVIEW, ephemeral=True)
        with pytest.raises(UserError, match="review"):
            await runtime.create(wanted)
        assert runtime.boxes == {}

    within(tmp_path, act)


def test_commits_that_cannot_come_home_keep_the_box_unless_it_is_forced(tmp_path: Path) -> None:
    async def act(runtime: Runtime, place: Path) -> None:
        box = await runtime.create(request(place, name="mine"))
        unit = twin(box)
        new = commit(place, "more", "more\n")
        git(place, "reset", "-q", "--hard", "HEAD~1")
        with open(f"{unit.place}/refs/heads/fix", "w", encoding="ascii") as file:
            file.write(f"{new}\n")
        os.rename(place / ".git", tmp_path / "away")
        with pytest.raises(UserError, match="commits of fix that did not come home"):
            await runtime.remove("mine", force=False)
        assert runtime.find("mine") is box
        info = await runtime.remove("mine", force=True)
        assert info.lost[0].startswith("commits of fix")
        assert runtime.boxes == {}

    within(tmp_path, act)

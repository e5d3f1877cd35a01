"""Commits on their way home without a box; tests/boxes/test_homecoming.py has those with one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.reports import FetchInfo
from paddock.runtime import homecoming
from paddock.workspace import gitdir, repository
from tests.support.serving import request, running
from tests.workspace.scenes import commit, git, make_repository

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


def within(tmp_path: Path, act: Callable[[Runtime, Box, Path], Awaitable[None]]) -> None:
    place = make_repository(tmp_path / "workspace")

    async def run() -> None:
        async with running(tmp_path) as runtime:
            await act(runtime, await runtime.create(request(place, name="mine")), place)

    asyncio.run(run())


def twin(box: Box) -> gitdir.Unit:
    """What its first start makes."""
    found = repository.find(box.row.spec.workspace)
    return gitdir.make(f"{box.directory}/git", found, who=gitdir.Identity()).units[0]


def test_a_box_without_a_gitdir_has_no_commits(tmp_path: Path) -> None:
    async def act(runtime: Runtime, box: Box, _place: Path) -> None:
        assert await homecoming.fetch(runtime, "mine") == FetchInfo()
        assert await homecoming.commits(runtime, "mine") == ()
        assert not homecoming.has_news(box)
        with pytest.raises(UserError):
            await homecoming.fetch(runtime, "nobody")

    within(tmp_path, act)


def test_a_branch_is_ahead_while_the_host_has_no_reference_to_its_commit(tmp_path: Path) -> None:
    async def act(_runtime: Runtime, box: Box, place: Path) -> None:
        unit = twin(box)
        assert homecoming.ahead(box) == ()
        new = commit(place, "more", "more\n")  # as if it were the box's
        git(place, "reset", "-q", "--hard", "HEAD~1")
        os.makedirs(f"{unit.place}/refs/heads", exist_ok=True)
        with open(f"{unit.place}/refs/heads/fix", "w", encoding="ascii") as file:
            file.write(f"{new}\n")
        assert homecoming.ahead(box) == ("fix",)
        git(place, "update-ref", "refs/paddock/mine/fix", new)
        assert homecoming.ahead(box) == ()
        os.rename(place / ".git", tmp_path / "away")
        assert homecoming.ahead(box) == ("fix",), "without the repository nothing is anywhere else"

    within(tmp_path, act)


def test_an_earlier_box_of_the_name_keeps_its_references(tmp_path: Path) -> None:
    async def act(_runtime: Runtime, box: Box, place: Path) -> None:
        unit = twin(box)
        git(place, "update-ref", "refs/paddock/mine/main", "HEAD")
        label = homecoming._label(box, [unit])
        assert label == f"mine-{box.row.id[:6]}"
        git(place, "update-ref", "-d", "refs/paddock/mine/main")
        assert homecoming._label(box, [unit]) == label, "once chosen it stays"

    within(tmp_path, act)

"""What is said at the end of a run without a box; tests/boxes/test_homecoming.py has those with one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock.reports import LeaveReport
from paddock.runtime import departures
from tests.support.serving import request, running
from tests.workspace.scenes import make_repository

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


def within(tmp_path: Path, act: Callable[[Runtime, Box], Awaitable[None]]) -> None:
    place = make_repository(tmp_path / "workspace")

    async def run() -> None:
        async with running(tmp_path) as runtime:
            await act(runtime, await runtime.create(request(place, name="mine")))

    asyncio.run(run())


def test_a_box_that_never_ran_left_nothing(tmp_path: Path) -> None:
    async def act(runtime: Runtime, box: Box) -> None:
        assert await departures.left(runtime, box.row.id) == LeaveReport()
        assert await departures.left(runtime, "no-such-box") == LeaveReport()

    within(tmp_path, act)


def test_what_is_new_since_the_last_look_is_told_once(tmp_path: Path) -> None:
    async def act(runtime: Runtime, box: Box) -> None:
        workspace = box.row.spec.workspace
        box.before = runtime.workspaces.survey(workspace)
        os.mkdir(f"{workspace}/.idea")
        os.mkdir(f"{workspace}/inner")
        make = f"{workspace}/inner/.git"
        os.mkdir(make)
        told = await departures.left(runtime, box.row.id)
        assert [item.path for item in told.trusted] == [".idea"]
        assert told.nested == ("inner/.git",)
        assert await departures.left(runtime, box.row.id) == LeaveReport()

    within(tmp_path, act)


def test_what_is_found_while_nobody_waits_is_told_to_the_next_who_asks(tmp_path: Path) -> None:
    async def act(runtime: Runtime, box: Box) -> None:
        box.before = runtime.workspaces.survey(box.row.spec.workspace)
        os.mkdir(f"{box.row.spec.workspace}/.idea")
        await departures.note(runtime, box)
        assert runtime.info(box).untold == 1
        os.mkdir(f"{box.row.spec.workspace}/.vscode")
        box.looked_last = False
        told = await departures.left(runtime, box.row.id)
        assert [item.path for item in told.trusted] == [".idea", ".vscode"]
        assert runtime.info(box).untold == 0

    within(tmp_path, act)


def test_a_workspace_that_is_gone_is_a_problem_that_is_told(tmp_path: Path) -> None:
    async def act(runtime: Runtime, box: Box) -> None:
        box.before = runtime.workspaces.survey(box.row.spec.workspace)
        os.rename(box.row.spec.workspace, f"{tmp_path}/elsewhere")
        await departures.note(runtime, box)
        assert "could not be looked at" in (await departures.left(runtime, box.row.id, look=False)).problems[0]
        assert "could not be looked at" in (await departures.stopped(runtime, box)).problems[0]

    within(tmp_path, act)

"""The lives of boxes: they start once, are noticed when they end, and are put away."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import BoxState
from paddock.runtime import execution
from paddock.runtime.box import Ending
from tests.support.serving import request, running, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.base import Placement
    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


def test_removing_takes_the_row_and_the_files(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace, name="mine"))
        await runtime.remove("mine", force=False)
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])
        with pytest.raises(UserError):
            await runtime.remove("mine", force=True)

    within(tmp_path, act)


def test_a_box_that_was_removed_meanwhile_is_not_started(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        await runtime.remove("mine", force=False)
        with pytest.raises(UserError, match="was removed"):
            await runtime.lifetimes.start(box)

    within(tmp_path, act)


def test_ending_a_box_that_does_not_run_changes_nothing(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        await runtime.stop("mine")
        runtime.lifetimes.condemn(box.row.id, "memory limit")
        await runtime.lifetimes.end_homeless()
        assert (box.state, box.verdict) == (BoxState.CREATED, None)
        assert repr(runtime.lifetimes) == "<Lifetimes 0 run>"

    within(tmp_path, act)


def test_a_workspace_that_cannot_be_tidied_keeps_nothing_else_of_a_box(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = []

    def clean(placement: Placement) -> str:
        cleaned.append(placement.id)
        return "why"

    async def fail(box: Box) -> None:
        raise FileNotFoundError(2, "another one took it away", box.name)

    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        monkeypatch.setattr(runtime.workspaces, "left", fail)
        monkeypatch.setattr(runtime.engine(box), "clean", clean)
        assert await runtime.lifetimes.clean(box) == "why"
        assert cleaned == [box.row.id]

    within(tmp_path, act)


async def _ran(runtime: Runtime, workspace: Path, **rest: object) -> Box:
    box = await runtime.create(request(workspace, name="mine", **rest))
    await runtime.lifetimes.start(box)
    return box


@pytest.mark.box
def test_a_box_starts_once_however_many_ask(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        await asyncio.gather(*(runtime.lifetimes.start(box) for _ in range(5)))
        first = box.handle
        await runtime.lifetimes.start(box)
        assert box.handle is first
        assert box.state is BoxState.RUNNING

    within(tmp_path, act)


@pytest.mark.box
def test_a_box_that_is_running_is_removed_only_by_force(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await _ran(runtime, workspace)
        with pytest.raises(UserError) as caught:
            await runtime.remove("mine", force=False)
        assert caught.value.code == "running"
        await runtime.remove("mine", force=True)
        assert runtime.boxes == {}

    within(tmp_path, act)


@pytest.mark.box
def test_a_stopped_box_starts_again_with_its_home_and_without_its_tmp(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await _ran(runtime, workspace)
        for name in ("home", "tmp"):
            with open(f"{box.directory}/{name}/file", "w", encoding="ascii"):
                pass
        await runtime.stop("mine")
        assert (box.state, box.row.state) == (BoxState.STOPPED, BoxState.STOPPED)
        await runtime.lifetimes.start(box)
        assert [os.path.exists(f"{box.directory}/{name}/file") for name in ("home", "tmp")] == [True, False]

    within(tmp_path, act)


@pytest.mark.box
def test_a_condemned_box_says_why(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await _ran(runtime, workspace)
        runtime.lifetimes.condemn(box.row.id, "disk limit: too much")
        assert await runtime.lifetimes.endings.of(box.row.id) == Ending(reason="disk limit: too much", exit_code=137)
        assert (box.state, box.info().reason) == (BoxState.FAILED, "disk limit: too much")
        runtime.lifetimes.condemn(box.row.id, "again")  # it is over already
        await runtime.lifetimes.start(box)
        runtime.lifetimes.condemn(box.row.id, "wall time limit")
        assert (await runtime.lifetimes.endings.of(box.row.id)).exit_code == 124

    within(tmp_path, act)


@pytest.mark.box
def test_a_box_whose_first_process_is_killed_is_noticed(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await _ran(runtime, workspace)
        assert box.handle is not None
        os.kill(box.handle.evidence.pid, 9)
        await asyncio.wait_for(box.ended.wait(), 10)
        assert box.state is BoxState.FAILED
        assert box.info().reason
        with pytest.raises(Unavailable, match="not running"):
            await execution.signal(runtime, "mine", "job", 15)

    within(tmp_path, act)


@pytest.mark.box
def test_a_workspace_that_is_gone_is_named(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        workspace.rmdir()
        with pytest.raises(PaddockError) as caught:
            await runtime.lifetimes.start(box)
        assert os.fspath(workspace) in caught.value.message
        assert (box.state, os.fspath(workspace) in box.info().reason) == (BoxState.FAILED, True)
        workspace.mkdir()
        await runtime.lifetimes.start(box)
        assert box.state is BoxState.RUNNING

    within(tmp_path, act)


@pytest.mark.box
def test_closing_the_runtime_leaves_boxes_running(tmp_path: Path, workspace: Path) -> None:
    async def start() -> int:
        async with running(tmp_path) as runtime:
            box = await _ran(runtime, workspace)
            assert box.handle is not None
            pid = box.handle.evidence.pid
            runtime.boxes.clear()  # so that the support's clean-up does not find it
            asyncio.get_running_loop().remove_reader(box.handle.pidfd)
            box.handle.close()
            return pid

    pid = asyncio.run(start())
    os.kill(pid, 0)
    os.kill(pid, 9)

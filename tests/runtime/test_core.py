"""The runtime: boxes are made, found, opened again and removed; what is acknowledged is in the store."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import BoxState, ExecSpec, Limits, Mount
from paddock.runtime import joblist, records
from paddock.runtime.box import Ending
from paddock.store import Store
from tests.support.serving import request, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

    Act = Callable[[Runtime], Awaitable[None]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def within(home: Path, act: Act) -> None:
    async def run() -> None:
        async with running(home) as runtime:
            await act(runtime)

    asyncio.run(run())


# -- boxes that are not started ----------------------------------------------------------------------------------------


def test_a_box_is_on_disk_and_in_the_store_when_it_is_acknowledged(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        assert os.path.isfile(f"{box.directory}/{records.FILE}")
        assert os.stat(box.directory).st_mode & 0o777 == 0o700
        store = Store(runtime.paths.database)
        rows, damaged = store.load()
        store.close()
        assert ([row.spec for row in rows], damaged) == ([box.row.spec], [])

    within(tmp_path, act)


def test_a_refused_request_leaves_nothing(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        for bad in ("/", "/nonexistent", runtime.paths.state):
            with pytest.raises(UserError):
                await runtime.create(request(bad))  # type: ignore[arg-type]
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

    within(tmp_path, act)


def test_a_store_that_fails_leaves_no_directory(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("disk full", code="disk")

    async def act(runtime: Runtime) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "insert", full)
            with pytest.raises(Unavailable, match="disk full"):
                await runtime.create(request(workspace))
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

    within(tmp_path, act)


def test_requests_at_the_same_moment_get_names_of_their_own(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        boxes = await asyncio.gather(*(runtime.create(request(workspace, ephemeral=True)) for _ in range(20)))
        assert len({box.name for box in boxes}) == 20

    within(tmp_path, act)


def test_one_of_two_requests_for_a_name_gets_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        made = await asyncio.gather(
            *(runtime.create(request(workspace, name="mine")) for _ in range(5)), return_exceptions=True
        )
        refused = [error for error in made if isinstance(error, UserError) and error.code == "exists"]
        assert (len(refused), len(runtime.boxes)) == (4, 1)

    within(tmp_path, act)


def test_opening_at_the_same_moment_is_one_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        opened = await asyncio.gather(*(runtime.open(request(workspace)) for _ in range(5)))
        assert sorted(new for _, new in opened) == [False] * 4 + [True]
        assert len({box.row.id for box, _ in opened}) == 1

    within(tmp_path, act)


def test_a_box_is_found_by_its_name_its_id_and_the_beginning_of_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        for name in ("mine", box.row.id, box.row.id[:4]):
            assert runtime.find(name) is box
        for name in ("min", box.row.id[:3], "", "mine2"):
            with pytest.raises(UserError) as caught:
                runtime.find(name)
            assert caught.value.code == "no-box"

    within(tmp_path, act)


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ({}, ""),
        ({"name": "mine"}, ""),
        ({"name": "other"}, "exists"),
        ({"limits": Limits(pids=5)}, ""),
        ({"limits": Limits(pids=6)}, "different"),
        ({"mounts": (Mount(source="/usr/share/doc", target="/mnt/doc"),)}, "different"),
    ],
)
def test_a_box_is_opened_again_only_as_it_is(
    tmp_path: Path, workspace: Path, rest: dict[str, object], code: str
) -> None:
    async def act(runtime: Runtime) -> None:
        first, _ = await runtime.open(request(workspace, name="mine", limits=Limits(pids=5)))
        if not code:
            assert await runtime.open(request(workspace, **rest)) == (first, False)
            return
        with pytest.raises(UserError) as caught:
            await runtime.open(request(workspace, **rest))
        assert caught.value.code == code
        assert "mine" in caught.value.message

    within(tmp_path, act)


def test_opening_again_with_variables_adds_them(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.open(request(workspace, env={"A": "1"}))
        box, _ = await runtime.open(request(workspace, env={"B": "2"}))
        assert box.row.spec.env == {"A": "1", "B": "2"}

    within(tmp_path, act)


def test_an_ephemeral_box_is_never_opened_again(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace, ephemeral=True))
        assert (await runtime.open(request(workspace)))[1] is True

    within(tmp_path, act)


@pytest.mark.parametrize("env", [{"1A": "x"}, {"A": "\0"}, {"A": "x" * 300_000}])
def test_a_bad_variable_changes_nothing(tmp_path: Path, workspace: Path, env: dict[str, str]) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine", env={"A": "1"}))
        with pytest.raises(UserError):
            await runtime.set_env("mine", env, ())
        assert box.row.spec.env == {"A": "1"}

    within(tmp_path, act)


def test_removing_takes_the_row_and_the_files(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace, name="mine"))
        await runtime.remove("mine", force=False)
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])
        with pytest.raises(UserError):
            await runtime.remove("mine", force=True)

    within(tmp_path, act)


def test_prune_leaves_what_never_ran(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        assert await runtime.prune() == []
        box.row = await runtime.write(runtime._store.set_state, box.row, BoxState.STOPPED)
        assert await runtime.prune() == ["mine"]

    within(tmp_path, act)


def test_the_ending_of_a_box_nobody_knows_is_a_plain_one(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        assert await runtime.ending("gone") == Ending(reason="", exit_code=137)

    within(tmp_path, act)


def test_its_repr_counts_boxes(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace))
        assert repr(runtime) == "<Runtime 1 boxes>"

    within(tmp_path, act)


# -- boxes that run ----------------------------------------------------------------------------------------------------


async def _ran(runtime: Runtime, workspace: Path, **rest: object) -> Box:
    box = await runtime.create(request(workspace, name="mine", **rest))
    await runtime.start(box)
    return box


@pytest.mark.box
def test_a_box_starts_once_however_many_ask(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        await asyncio.gather(*(runtime.start(box) for _ in range(5)))
        first = box.handle
        await runtime.start(box)
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
        await runtime.start(box)
        assert [os.path.exists(f"{box.directory}/{name}/file") for name in ("home", "tmp")] == [True, False]

    within(tmp_path, act)


@pytest.mark.box
def test_a_condemned_box_says_why(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await _ran(runtime, workspace)
        runtime.condemn(box.row.id, "disk limit: too much")
        assert await runtime.ending(box.row.id) == Ending(reason="disk limit: too much", exit_code=137)
        assert (box.state, box.info().reason) == (BoxState.FAILED, "disk limit: too much")
        runtime.condemn(box.row.id, "again")  # it is over already
        await runtime.start(box)
        runtime.condemn(box.row.id, "wall time limit")
        assert (await runtime.ending(box.row.id)).exit_code == 124

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
            await runtime.signal("mine", "job", 15)

    within(tmp_path, act)


@pytest.mark.box
def test_a_workspace_that_is_gone_is_named(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        workspace.rmdir()
        with pytest.raises(PaddockError) as caught:
            await runtime.start(box)
        assert os.fspath(workspace) in caught.value.message
        assert (box.state, os.fspath(workspace) in box.info().reason) == (BoxState.FAILED, True)
        workspace.mkdir()
        await runtime.start(box)
        assert box.state is BoxState.RUNNING

    within(tmp_path, act)


@pytest.mark.box
def test_a_run_that_fails_leaves_no_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        with pytest.raises(UserError, match="no user"):
            await runtime.run(request(workspace), ExecSpec(argv=("true",), user="root"))
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

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


@pytest.mark.box
def test_old_jobs_make_room_for_new_ones_unless_they_run(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.limits.JOBS_KEPT_PER_BOX", 3)

    async def act(runtime: Runtime) -> None:
        box = await _ran(runtime, workspace)
        ids = []
        for argv in (("sleep", "60"), *[("true",)] * 5):
            job, channel = await runtime.exec(box, ExecSpec(argv=argv, detach=True))
            channel.close()
            ids.append(job)
            if argv[0] == "true":
                await _until_ended(runtime, job)
        kept = [job.id for job in await joblist.jobs(runtime, "mine")]
        assert ids[0] in kept, "it runs"
        assert kept[-1] == ids[-1]
        assert len(kept) <= 4
        assert len(os.listdir(f"{box.directory}/journal")) == 2 * len(kept)

    within(tmp_path, act)


async def _until_ended(runtime: Runtime, job: str) -> None:
    for _ in range(1000):
        (found,) = [row for row in await joblist.jobs(runtime, "mine") if row.id == job]
        if not found.running:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(job)

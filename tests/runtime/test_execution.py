"""Commands in boxes; tests/boxes has what they do there."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.model import ExecSpec
from paddock.runtime import departures, execution, joblist
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


def test_a_signal_starts_no_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        with pytest.raises(Unavailable, match="not running"):
            await execution.signal(runtime, "mine", "job", 15)
        assert box.handle is None

    within(tmp_path, act)


def test_a_command_of_a_user_that_is_not_there_starts_no_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        with pytest.raises(UserError, match="no user"):
            await execution.start(runtime, box, ExecSpec(argv=("true",), user="root"))
        assert box.handle is None

    within(tmp_path, act)


@pytest.mark.box
def test_a_run_that_fails_leaves_no_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        with pytest.raises(UserError, match="no user"):
            await execution.run(runtime, request(workspace), ExecSpec(argv=("true",), user="root"))
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

    within(tmp_path, act)


@pytest.mark.box
def test_the_box_of_a_command_whose_end_was_told_is_gone_however_long_it_takes_to_clear_away(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(runtime: Runtime) -> None:
        cleared = threading.Event()
        wanted = request(workspace, name="mine")
        box, _, channel = await execution.run(runtime, wanted, ExecSpec(argv=("true",)))
        clean = runtime.engine(box).clean
        monkeypatch.setattr(runtime.engine(box), "clean", lambda placement: (cleared.wait(30), clean(placement))[1])
        assert runtime.register.listed() == [box], "the oracle: until then it is there"
        with channel:
            await departures.left(runtime, box.row.id)
        assert (runtime.register.listed(), list(runtime.boxes)) == ([], [box.row.id])
        with pytest.raises(UserError, match="no box named"):
            runtime.find("mine")
        again = asyncio.create_task(runtime.create(wanted))
        await asyncio.sleep(0.05)
        assert not again.done(), "its name is free when its files are gone"
        cleared.set()
        fresh = await again
        assert runtime.find("mine") is fresh

    within(tmp_path, act)


@pytest.mark.box
def test_old_jobs_make_room_for_new_ones_unless_they_run(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.limits.JOBS_KEPT_PER_BOX", 3)

    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        ids = []
        for argv in (("sleep", "60"), *[("true",)] * 5):
            job, channel = await execution.start(runtime, box, ExecSpec(argv=argv, detach=True))
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

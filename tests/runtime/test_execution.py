"""Commands in boxes; tests/boxes has what they do there."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.model import ExecSpec
from paddock.runtime import execution, joblist
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

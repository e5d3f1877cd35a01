"""The journalled commands of a box that has none; tests/cli/test_logs.py has those of boxes that run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.runtime import joblist
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path


def test_a_box_without_jobs_has_none_and_says_how_to_list_them(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def run() -> None:
        async with running(tmp_path) as runtime:
            await runtime.create(request(workspace, name="mine"))
            assert await joblist.jobs(runtime, "mine") == []
            for job in ("", "none"):
                with pytest.raises(UserError, match="the box 'mine' has no"):
                    await joblist.log_files(runtime, "mine", job)

    asyncio.run(run())

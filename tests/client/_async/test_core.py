"""The SDK on an event loop, against a real daemon and real boxes: what many tasks at once add to the blocking one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxState
from paddock.reports import RemovalInfo
from tests.support.sdk import within

if TYPE_CHECKING:
    from paddock.client import AsyncPaddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box


def test_a_run_gives_output_and_exit_code(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        done = await paddock.run(["sh", "-c", "cat; exit 3"], workspace=str(installation.workspace), stdin=b"in")
        assert (done.stdout, done.exit_code) == (b"in", 3)

    within(installation, act)


def test_many_runs_at_once_each_have_their_own_box(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        workspace = str(installation.workspace)
        done = await asyncio.gather(*(paddock.run(["echo", str(n)], workspace=workspace) for n in range(20)))
        assert [one.stdout for one in done] == [b"%d\n" % n for n in range(20)]

    within(installation, act)


def test_a_cancelled_run_leaves_no_box(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        task = asyncio.create_task(paddock.run(["sleep", "600"], workspace=str(installation.workspace)))
        while [info.state for info in await paddock.ls()] != [BoxState.RUNNING]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _until_none(paddock)

    within(installation, act)


async def _until_none(paddock: AsyncPaddock) -> None:
    async with asyncio.timeout(10):
        while await paddock.ls():
            await asyncio.sleep(0.01)


def test_errors_are_those_of_the_blocking_one(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        with pytest.raises(UserError) as caught:
            await paddock.get("nobody")
        assert caught.value.code == "no-box"
        with pytest.raises(UserError) as caught:
            await paddock.run(["no-such"], workspace=str(installation.workspace))
        assert caught.value.exit_code == 127
        with pytest.raises(UserError):
            await paddock.create("../bad", workspace=str(installation.workspace))
        await _until_none(paddock)

    within(installation, act)


def test_prune_reset_open_and_repr(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        from paddock.client.answers import box_request

        request = box_request(workspace=str(installation.workspace))
        box, new = await paddock.open(request)
        assert (new, (await paddock.open(request))[1]) == (True, False)
        assert repr(box) == "<AsyncBox shell-workspace created>"
        assert await paddock.prune() == []
        assert await paddock.reset() == [RemovalInfo(box="shell-workspace")]
        assert repr(paddock).startswith("<AsyncPaddock <AsyncTransport ")

    within(installation, act)

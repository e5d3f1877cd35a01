"""Boxes of the SDK on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.model import BoxState
from tests.support import contract
from tests.support.sdk import in_box

if TYPE_CHECKING:
    from paddock.client import AsyncBox
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def test_many_commands_at_once_share_a_box(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        done = await asyncio.gather(*(box.exec(["cat"], stdin=b"%d" % n) for n in range(30)))
        assert [one.stdout for one in done] == [b"%d" % n for n in range(30)]

    in_box(installation, act)


def test_a_detached_command_a_changed_environment_and_a_stop(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        job = await box.detach(["sleep", "600"])
        assert [(info.id, info.running) for info in await box.jobs()] == [(job, True)]
        await box.set_env({"A": "1"})
        assert (await box.exec(["sh", "-c", "echo $A"])).stdout == b"1\n"
        await box.stop(grace_s=0.5)
        assert (await box.refresh()).state is BoxState.STOPPED
        assert [info.running for info in await box.jobs()] == [False]

    in_box(installation, act)


def test_ten_forks_at_once_stand_for_themselves(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        await box.exec(["sh", "-c", "echo one > ~/file"])
        await box.checkpoint("first")
        forks = await box.fork(10, checkpoint="first")
        try:
            await asyncio.gather(*(one.exec(["sh", "-c", f"echo {one.name} >> ~/file"]) for one in forks))
            seen = await asyncio.gather(*(one.exec(["sh", "-c", "cat ~/file"]) for one in forks))
            assert [done.stdout.decode().split() for done in seen] == [["one", one.name] for one in forks]
            await box.restore("first")
            assert [info.name for info in await box.checkpoints()] == ["first"]
        finally:
            for one in forks:
                await one.remove(force=True)

    in_box(installation, act)

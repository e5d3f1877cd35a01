"""Commands of the SDK on an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.errors import Unavailable
from paddock.model import ExecSpec, TtySize
from tests.support import contract
from tests.support.sdk import in_box

if TYPE_CHECKING:
    from paddock.client import AsyncBox
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def test_twenty_megabytes_go_through_cat(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        data = os.urandom(1 << 20) * 20
        assert (await box.exec(["cat"], stdin=data)).stdout == data

    in_box(installation, act)


def test_input_that_a_command_does_not_read_does_not_keep_it(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        assert (await box.exec(["true"], stdin=bytes(20 << 20))).exit_code == 0

    in_box(installation, act)


def test_a_cancelled_command_ends_and_the_client_goes_on(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        await box.exec(["true"])
        task = asyncio.create_task(box.exec(["sleep", "600"], stdin=bytes(4 << 20)))
        while not await box.processes():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):  # its client left, so it gets SIGHUP
            while await box.processes():
                await asyncio.sleep(0.01)
        assert (await box.exec(["echo", "on"])).stdout == b"on\n"

    in_box(installation, act)


def test_a_deadline_of_the_callers_own_works_too(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.exec(["sleep", "600"]), 0.5)
        assert (await box.exec(["true"])).ok

    in_box(installation, act)


def test_a_command_is_streamed_signalled_and_resized(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        script = "trap 'stty size; exit 4' USR1; echo up; while :; do sleep 0.02; done"
        command = await box.start(ExecSpec(argv=("sh", "-c", script), tty=TtySize(rows=1, cols=2), stdin=True))
        seen = b""
        async for kind, data in command.output():
            assert kind == frames.STDOUT
            seen += data
            if seen == b"up\r\n":
                await command.resize(TtySize(rows=3, cols=4))
                await command.signal(signal.SIGUSR1)
        assert b"3 4" in seen
        assert command.result is not None
        assert command.result.exit_code == 4
        await command.close()

    in_box(installation, act)


def test_a_kept_command_is_connected_to_again(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        first = await box.start(ExecSpec(argv=("sh", "-c", "read x; echo $x"), stdin=True, keep=True))
        await first.wait_started()
        await first.close()
        again = await box.connect(first.job)
        await again.wait_started()
        await again.write(b"again\n")
        await again.close_stdin()
        assert [data async for _, data in again.output()] == [b"again\n"]
        await again.close()

    in_box(installation, act)


def test_a_box_that_ends_under_a_command_says_why(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        command = await box.start(ExecSpec(argv=("sleep", "600")))
        await command.wait_started()
        await box.stop(grace_s=0)
        with pytest.raises(Unavailable, match="it was stopped"):
            await command.finish()

    in_box(installation, act)

"""The SDK on an event loop, against a real daemon and real boxes: what many tasks at once add to the blocking one."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client import AsyncPaddock
from paddock.errors import Unavailable, UserError
from paddock.model import BoxState, ExecSpec, TtySize
from paddock.reports import RemovalInfo

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.client import AsyncBox
    from tests.support.installation import Installation

pytestmark = pytest.mark.box


def within(installation: Installation, act: Callable[[AsyncPaddock], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncPaddock(home=str(installation.home)) as paddock:
            await act(paddock)

    asyncio.run(run())


def in_box(installation: Installation, act: Callable[[AsyncBox], Awaitable[None]]) -> None:
    async def run(paddock: AsyncPaddock) -> None:
        async with await paddock.create("sdk", workspace=str(installation.workspace)) as box:
            await act(box)

    within(installation, run)


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


def test_many_commands_at_once_share_a_box(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        done = await asyncio.gather(*(box.exec(["cat"], stdin=b"%d" % n) for n in range(30)))
        assert [one.stdout for one in done] == [b"%d" % n for n in range(30)]

    in_box(installation, act)


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


def test_a_box_that_ends_under_a_command_says_why(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        command = await box.start(ExecSpec(argv=("sleep", "600")))
        await command.wait_started()
        await box.stop(grace_s=0)
        with pytest.raises(Unavailable, match="it was stopped"):
            await command.finish()

    in_box(installation, act)


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

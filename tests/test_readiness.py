"""Waiting ends with a message, with an end, and with whoever waits; nothing is left in the loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest

from paddock.readiness import readable, to_its_end, within


def test_a_message_and_an_end_are_something_to_read() -> None:
    async def act() -> None:
        ours, theirs = socket.socketpair()
        with ours:
            waiting = asyncio.ensure_future(readable(ours.fileno()))
            await asyncio.sleep(0)
            assert not waiting.done()
            theirs.send(b"x")
            await asyncio.wait_for(waiting, 5)
            ours.recv(1)
            theirs.close()
            await asyncio.wait_for(readable(ours.fileno()), 5)

    asyncio.run(act())


def test_the_end_of_a_process_can_be_waited_for() -> None:
    async def act() -> None:
        pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
        pidfd = os.pidfd_open(pid)
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(readable(pidfd), 0.01)
            os.kill(pid, signal.SIGKILL)
            await asyncio.wait_for(readable(pidfd), 5)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(pidfd)

    asyncio.run(act())


def test_who_gives_up_leaves_no_reader() -> None:
    async def act() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            waiting = asyncio.ensure_future(readable(ours.fileno()))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not asyncio.get_running_loop().remove_reader(ours.fileno())

    asyncio.run(act())


def test_who_is_cancelled_in_the_moment_in_which_it_is_done_is_cancelled() -> None:
    async def act() -> None:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(within(done, 10))
        await asyncio.sleep(0)
        done.set_result(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(act())


def test_what_is_done_in_time_is_answered_and_what_is_not_is_ended() -> None:
    async def act() -> None:
        assert await within(asyncio.sleep(0, "result"), 5) == "result"
        assert await within(asyncio.sleep(0, "result"), None) == "result"
        late = asyncio.ensure_future(asyncio.sleep(60))
        with pytest.raises(TimeoutError):
            await within(late, 0.01)
        assert late.cancelled()

    asyncio.run(act())


def test_what_must_not_be_left_half_done_is_finished_before_who_leaves_is_gone() -> None:
    async def act() -> None:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        finished: list[str] = []

        async def work() -> str:
            finished.append(await done)
            return finished[0]

        waiting = asyncio.ensure_future(to_its_end(work()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        done.set_result("result")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert finished == ["result"]
        assert await to_its_end(work()) == "result"

    asyncio.run(act())

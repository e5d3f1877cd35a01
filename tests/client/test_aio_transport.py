"""How a client on an event loop bears what a daemon or a box does."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client.aio_transport import AsyncChannel, AsyncTransport
from paddock.client.answers import stdin_frames
from paddock.errors import Unavailable, UserError
from tests.support import answering
from tests.support.answering import Answering

if TYPE_CHECKING:
    from pathlib import Path


def test_calls_of_many_tasks_share_one_connection(tmp_path: Path) -> None:
    async def act() -> list[object]:
        transport = AsyncTransport(daemon.where)
        found = await asyncio.gather(*(transport.call("v", {"n": n}) for n in range(50)))
        await transport.close()
        return [result for result, _ in found]

    with Answering(tmp_path, answering.echo) as daemon:
        assert asyncio.run(act()) == [{"n": n} for n in range(50)]
    assert daemon.connections == 1


@pytest.mark.parametrize(
    ("script", "kind", "connections"),
    [
        (answering.refuse, UserError, 1),
        (answering.hang_up, Unavailable, 2),
        (answering.babble, Unavailable, 2),
    ],
)
def test_after_an_error_the_next_call_is_in_step(
    tmp_path: Path, script: answering.Script, kind: type[Exception], connections: int
) -> None:
    async def act() -> None:
        transport = AsyncTransport(daemon.where)
        for _ in range(2):
            with pytest.raises(kind):
                await transport.call("v", {})
        await transport.close()

    with Answering(tmp_path, script) as daemon:
        asyncio.run(act())
    assert daemon.connections == connections


def test_a_cancelled_call_does_not_give_its_answer_to_the_next(tmp_path: Path) -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def slow(sock: socket.socket) -> None:
        while (question := answering.question(sock)) is not None:
            if question["verb"] == "slow":
                asked.set()
                cancelled.wait(10)
            answering.answer(sock, question["verb"])

    async def act() -> None:
        transport = AsyncTransport(daemon.where)
        task = asyncio.create_task(transport.call("slow", {}))
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        assert (await transport.call("next", {}))[0] == "next"
        await transport.close()

    with Answering(tmp_path, slow) as daemon:
        asyncio.run(act())


def test_much_input_and_much_output_do_not_wait_for_each_other() -> None:
    data = os.urandom(1 << 20) * 20

    async def act() -> bytes:
        channel = AsyncChannel(ours.detach())
        await channel.queue(stdin_frames(data))
        found = bytearray()
        while len(found) < len(data):
            frame = await channel.receive()
            assert frame is not None
            found += frame[1]
        await channel.send(frames.STDIN, b"")
        await channel.close()
        return bytes(found)

    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=answering.mirror, args=(theirs,))
    thread.start()
    assert asyncio.run(act()) == data
    thread.join()
    theirs.close()


def test_messages_sent_while_input_is_sent_do_not_mix_with_it() -> None:
    async def act() -> None:
        channel = AsyncChannel(ours.detach())
        await channel.queue(stdin_frames(bytes(4 << 20)))
        await asyncio.gather(*(channel.send_message({"n": n}) for n in range(20)))
        await channel.close()

    def gather() -> None:
        decoder = frames.Decoder()
        while data := theirs.recv(65536):
            seen.extend(decoder.feed(data))

    seen: list[tuple[int, bytes]] = []
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=gather)
    thread.start()
    asyncio.run(act())
    thread.join()
    theirs.close()
    assert sum(len(payload) for kind, payload in seen if kind == frames.STDIN) == 4 << 20
    assert [frames.decode_message(payload)["n"] for kind, payload in seen if kind == frames.MESSAGE] == list(range(20))


def test_closing_a_channel_ends_what_it_still_sends() -> None:
    async def act() -> None:
        channel = AsyncChannel(ours.detach())
        await channel.queue(stdin_frames(bytes(4 << 20)))
        await asyncio.sleep(0)
        await channel.close()
        assert len(asyncio.all_tasks()) == 1

    ours, theirs = socket.socketpair()
    asyncio.run(act())
    theirs.close()


def test_a_box_that_hangs_up_is_no_frame() -> None:
    async def act() -> None:
        channel = AsyncChannel(ours.detach())
        assert await channel.receive() == (frames.STDERR, b"last words")
        assert await channel.receive() is None
        await channel.close()

    ours, theirs = socket.socketpair()
    theirs.sendall(frames.encode(frames.STDERR, b"last words"))
    theirs.close()
    asyncio.run(act())

"""Bytes arrive as they were sent, whatever their number and pace, and an end on one side is an end on the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from paddock.gateway.flow import Flow, reset
from paddock.gateway.pipes import Pipes
from paddock.gateway.poller import Poller
from paddock.limits import FLOW_CHUNK_BYTES, FLOW_SPLICE_AFTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BIG = 8 * 1024 * 1024


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


class Stage:
    """A flow between a client and a server that are ours; `ended` when it has told us so."""

    def __init__(self, pipes: Pipes | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.poller = Poller(self.loop)
        self.pipes = pipes or Pipes()
        near_client, self.client = pair()
        near_server, self.server = pair()
        self.ends = 0
        self.ended = asyncio.Event()
        self.flow = Flow(self.poller, self.pipes, near_client, near_server, self._on_end)

    def _on_end(self) -> None:
        self.ends += 1
        self.ended.set()

    async def read(self, sock: socket.socket, count: int | None = None) -> bytes:
        """`count` bytes, or all until the end."""
        data = bytearray()
        while count is None or len(data) < count:
            piece = await self.loop.sock_recv(sock, 1 << 20)
            if not piece:
                break
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.flow.abort()
        assert len(self.poller) == 0
        self.poller.close()
        for sock in (self.client, self.server):
            sock.close()


def play(act: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        stage = Stage(**options)
        try:
            await asyncio.wait_for(act(stage), 30)
        finally:
            stage.close()
        assert stage.ends == 1, "the end is told once"

    asyncio.run(main())


def test_bytes_pass_both_ways_and_are_counted() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start(b"first ")
        await stage.loop.sock_sendall(stage.client, b"out")
        assert await stage.read(stage.server, 9) == b"first out"
        await stage.loop.sock_sendall(stage.server, b"back")
        assert await stage.read(stage.client, 4) == b"back"
        assert (stage.flow.outward.count, stage.flow.inward.count) == (9, 4)
        assert repr(stage.flow) == "<Flow open out 9 in 4>"

    play(act)


@pytest.mark.parametrize("pipes", [256, 0])
@pytest.mark.parametrize("inward", [False, True])
def test_much_arrives_as_it_was_sent_by_splice_and_by_copy(pipes: int, inward: bool) -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        data = os.urandom(BIG)
        source, sink = (stage.server, stage.client) if inward else (stage.client, stage.server)
        sending = asyncio.create_task(stage.loop.sock_sendall(source, data))
        assert await stage.read(sink, BIG) == data
        await sending
        direction = stage.flow.inward if inward else stage.flow.outward
        assert direction.count == BIG
        assert (direction.pipe is not None) == bool(pipes)

    play(act, pipes=Pipes(pipes))


def test_an_end_on_one_side_leaves_the_other_way_open() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        await stage.loop.sock_sendall(stage.client, b"question")
        stage.client.shutdown(socket.SHUT_WR)
        assert await stage.read(stage.server) == b"question"
        assert not stage.ended.is_set()
        await stage.loop.sock_sendall(stage.server, b"answer")
        stage.server.close()
        assert await stage.read(stage.client) == b"answer"
        await stage.ended.wait()

    play(act)


def test_all_is_delivered_before_the_end_however_slow_the_reader() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        data = os.urandom(BIG) * 8  # more than the kernel's buffers on the way hold

        def send() -> None:
            with stage.server:
                stage.server.setblocking(True)
                stage.server.sendall(data)

        thread = threading.Thread(target=send)
        thread.start()
        await asyncio.sleep(0.05)  # the reader does not read: the writer is held back
        assert thread.is_alive()
        assert await stage.read(stage.client) == data
        await asyncio.to_thread(thread.join)

    play(act)


def test_who_never_reads_costs_one_read_and_no_more() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        sent = 0
        while sent < 64 * 1024 * 1024:
            try:
                sent += stage.client.send(bytes(1 << 16))
            except BlockingIOError:
                before = sent
                await asyncio.sleep(0.02)
                with contextlib.suppress(BlockingIOError):
                    sent += stage.client.send(bytes(1 << 16))
                if sent == before:
                    break
        assert len(stage.flow.outward.rest) <= FLOW_CHUNK_BYTES
        assert sent < 32 * 1024 * 1024

    play(act, pipes=Pipes(0))


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_on_one_side_is_a_reset_on_the_other(who: str) -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        resetting, other = (stage.client, stage.server) if who == "client" else (stage.server, stage.client)
        await stage.loop.sock_sendall(resetting, b"x")
        assert await stage.read(other, 1) == b"x"
        reset(resetting)
        with pytest.raises(ConnectionResetError):
            await stage.read(other)
        await stage.ended.wait()

    play(act)


def test_aborting_resets_both() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start()
        stage.flow.abort()
        stage.flow.abort()
        for sock in (stage.client, stage.server):
            with pytest.raises(ConnectionResetError):
                await stage.read(sock)

    play(act)


def test_a_gate_sees_what_the_client_sends_before_the_server_does() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start(b"abc", bytes.upper)
        await stage.loop.sock_sendall(stage.client, b"def")
        assert await stage.read(stage.server, 6) == b"ABCDEF"
        await stage.loop.sock_sendall(stage.server, b"ghi")
        assert await stage.read(stage.client, 3) == b"ghi"

    play(act)


def test_a_direction_with_a_gate_is_never_spliced() -> None:
    async def act(stage: Stage) -> None:
        stage.flow.start(b"", lambda data: data)
        data = bytes(4 * FLOW_SPLICE_AFTER_BYTES)
        sending = asyncio.create_task(stage.loop.sock_sendall(stage.client, data))
        await stage.read(stage.server, len(data))
        await sending
        assert stage.flow.outward.pipe is None

    play(act)


def test_a_gate_that_fails_ends_its_flow(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        def broken(_data: bytes) -> bytes:
            raise ZeroDivisionError

        stage.flow.start(b"", broken)
        await stage.loop.sock_sendall(stage.client, b"x")
        await stage.ended.wait()
        with pytest.raises(ConnectionResetError):
            await stage.read(stage.client)

    play(act)
    assert "ZeroDivisionError" in caplog.text


def test_handing_back_waits_for_the_servers_last_word_and_keeps_the_client() -> None:
    async def act(stage: Stage) -> None:
        taken = asyncio.Event()

        def gate(data: bytes) -> bytes:
            stage.flow.hand_back(taken.set)
            return data

        stage.flow.start(b"", gate)
        await stage.loop.sock_sendall(stage.client, b"last question")
        assert await stage.read(stage.server) == b"last question", "and no more after it"
        assert not taken.is_set()
        await stage.loop.sock_sendall(stage.server, b"last answer")
        stage.server.close()
        await taken.wait()
        await stage.loop.sock_sendall(stage.flow.client, b", and ours")
        assert await stage.read(stage.client, 21) == b"last answer, and ours"
        stage.flow.client.close()

    play(act)


def test_a_server_that_resets_while_the_client_is_handed_back_costs_the_client_nothing() -> None:
    async def act(stage: Stage) -> None:
        taken = asyncio.Event()

        def gate(_data: bytes) -> bytes:
            stage.flow.hand_back(taken.set)
            return b""

        stage.flow.start(b"", gate)
        await stage.loop.sock_sendall(stage.client, b"x")
        assert await stage.read(stage.server) == b""
        reset(stage.server)
        await taken.wait()
        assert stage.flow.client.fileno() >= 0
        stage.flow.client.close()

    play(act)


def test_a_gate_that_holds_bytes_is_asked_for_them_at_the_end() -> None:
    async def act(stage: Stage) -> None:
        held = bytearray()

        def gate(data: bytes) -> bytes:
            held.extend(data)
            return b"" if data else bytes(held)

        stage.flow.start(b"", gate)
        await stage.loop.sock_sendall(stage.client, b"held")
        stage.client.shutdown(socket.SHUT_WR)
        assert await stage.read(stage.server) == b"held"

    play(act)

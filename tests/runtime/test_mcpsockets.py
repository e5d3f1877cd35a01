"""Bytes between an agent's socket and the frames of a server's command; tests/boxes/test_mcp.py has both for real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from paddock import frames, fs
from paddock.errors import Unavailable
from paddock.model import BoxId, BoxSpec, McpServer
from paddock.runtime import mcpsockets
from paddock.runtime.box import Box
from paddock.runtime.mcpsockets import Sockets
from paddock.store import new_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    import pytest

SPEC = BoxSpec(
    name="box",
    agent="shell",
    workspace="/w",
    mcp=(McpServer(name="one", command=("x",)), McpServer(name="web", url="https://h.example.com/")),
)


def a_box(tmp_path: Path) -> Box:
    return Box(new_row(BoxId("0123"), SPEC, ()), os.fspath(tmp_path))


class Scene:
    """A box's sockets, and the other end of each channel that was started for them."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.tasks: set[asyncio.Task[None]] = set()
        self.started: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.sockets = Sockets(self._later, self._start)

    def _later(self, coroutine: Coroutine[None, None, None], name: str) -> None:
        self.tasks.add(asyncio.get_running_loop().create_task(coroutine, name=name))

    async def _start(self, _box: Box, server: McpServer) -> socket.socket:
        if not self.started.empty():
            raise Unavailable("no second one", code="test")
        assert server.name == "one"
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.started.put_nowait(theirs)
        return ours

    def connect(self) -> socket.socket:
        peer = fs.connect_unix(f"{self.box.directory}/mcp", "one")
        peer.setblocking(False)
        return peer


@contextlib.asynccontextmanager
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(a_box(tmp_path))
    mcpsockets.prepare(SPEC, os.fspath(tmp_path))
    made.sockets.open(made.box)
    made.sockets.open(made.box)  # once is enough
    try:
        yield made
    finally:
        made.sockets.let_go()
        await asyncio.gather(*made.tasks, return_exceptions=True)


async def receive(sock: socket.socket) -> bytes:
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 65536), 10)


def test_only_commands_have_sockets(tmp_path: Path) -> None:
    [mount] = mcpsockets.prepare(SPEC, os.fspath(tmp_path))
    assert (mount.source, mount.target, mount.read_only) == (f"{tmp_path}/mcp", "/run/mcp", True)

    async def act() -> None:
        async with scene(tmp_path) as made:
            assert os.listdir(tmp_path / "mcp") == ["one"]
            assert repr(made.sockets) == "<Sockets 1 boxes, 0 connections>"

    asyncio.run(act())


def test_bytes_pass_and_descriptors_do_not(tmp_path: Path) -> None:
    async def act() -> None:
        loop = asyncio.get_running_loop()
        async with scene(tmp_path) as made:
            with made.connect() as peer:
                with open(tmp_path / "file", "w+b") as file:
                    socket.send_fds(peer, [b"hello"], [file.fileno()])
                server = await made.started.get()
                with server:
                    data, fds, _, _ = await asyncio.to_thread(_with_fds, server)
                    assert (data, fds) == (frames.encode(frames.STDIN, b"hello"), [])
                    said = frames.encode_message({"event": "started"}) + frames.encode(frames.STDERR, b"aside")
                    await loop.sock_sendall(server, said + frames.encode(frames.STDOUT, b"answer"))
                    assert await receive(peer) == b"answer"
                    peer.shutdown(socket.SHUT_WR)
                    assert await receive(server) == frames.encode(frames.STDIN, b"")
                    await loop.sock_sendall(server, frames.encode_message({"event": "exit", "code": 0}))
                    assert await receive(peer) == b""

    asyncio.run(act())


def _with_fds(server: socket.socket) -> tuple[bytes, list[int], int, object]:
    server.settimeout(10)
    try:
        return socket.recv_fds(server, 65536, 4)
    finally:
        server.setblocking(False)


def test_malformed_words_of_a_server_end_its_connection_alone(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as made:
            with made.connect() as peer:
                with await made.started.get() as server:
                    await asyncio.get_running_loop().sock_sendall(server, b"\xff" * 64)
                    assert await receive(peer) == b""
                with made.connect() as again, await made.started.get() as server:
                    await asyncio.get_running_loop().sock_sendall(server, frames.encode(frames.STDOUT, b"x"))
                    assert await receive(again) == b"x"

    asyncio.run(act())


def test_starts_are_paced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcpsockets, "MCP_CONNECTIONS_MAX", 3)
    monkeypatch.setattr(mcpsockets, "MCP_BURST_S", 0.3)

    async def act() -> list[float]:
        async with scene(tmp_path) as made:
            moments = [time.monotonic()]
            for _ in range(5):
                with made.connect(), await made.started.get():
                    moments.append(time.monotonic())
                await asyncio.gather(*made.tasks)
            return moments

    moments = asyncio.run(act())
    assert moments[5] - moments[0] >= 0.3, "the fourth waits until the first is long ago"


def test_one_too_many_is_refused_and_who_goes_on_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box connected eleven thousand times a second, and each had a line in the daemon's log."""
    monkeypatch.setattr(mcpsockets, "MCP_CONNECTIONS_MAX", 1)

    async def act() -> int:
        async with scene(tmp_path) as made:
            with made.connect(), await made.started.get():
                many = [made.connect() for _ in range(100)]
                assert await receive(many[0]) == b"", "the oracle: it is refused"
                await asyncio.sleep(0.5)
                gone = 0
                for one in many[1:]:
                    with one, contextlib.suppress(BlockingIOError):
                        gone += one.recv(1) == b""
                many[0].close()
            return gone

    assert 1 <= asyncio.run(act()) <= 20


def test_a_server_that_does_not_start_and_a_box_that_ends_hang_up(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as made:
            with made.connect() as first, made.connect() as second:
                assert await receive(second) == b"", "it did not start"
                server = await made.started.get()
                made.sockets.close(made.box.row.id)
                assert await receive(first) == b""
                with server:
                    assert await receive(server) == b"", "and with its channel goes the server's box"

    asyncio.run(act())

"""Channels to init: where it is not there, or says nonsense, the error names the box."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock import frames, fs
from paddock.engines.process.handle import ProcessHandle
from paddock.engines.process.init_socket import SOCKET
from paddock.errors import Unavailable
from paddock.model import Evidence
from paddock.runtime import channels
from tests.support.serving import request, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from paddock.engines.base import Engine
    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

    Act = Callable[[Engine, Box], Awaitable[None]]


@contextlib.asynccontextmanager
async def _answering(box: Box, said: bytes) -> AsyncIterator[None]:
    """Somebody who answers every request on the box's socket with the same bytes, and a handle that says it runs."""
    os.mkdir(f"{box.directory}/run")
    listener = fs.bind_unix(f"{box.directory}/run", SOCKET)
    listener.listen()
    listener.setblocking(False)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        while True:
            peer, _ = await loop.sock_accept(listener)
            with peer:
                await loop.sock_recv(peer, 4096)
                await loop.sock_sendall(peer, said)

    serving = asyncio.create_task(serve())
    box.handle = ProcessHandle(box.placement, Evidence(pid=os.getpid(), start_ticks=1, boot_id="b"), -1)
    try:
        yield
    finally:
        box.handle = None
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()


def with_init(tmp_path: Path, workspace: Path, said: bytes, act: Act) -> None:
    async def run(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        async with _answering(box, said):
            await act(runtime.engine(box), box)

    within(tmp_path, run)


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"id": "a", "tty": True}, {"id": "b"}], {"a", "b"}),
        ([], set()),
        (None, set()),
        ("text", set()),
        ([1, "x", None, {"id": "a"}], {"a"}),
    ],
)
def test_what_init_holds_is_read_as_far_as_it_makes_sense(
    tmp_path: Path, workspace: Path, rows: object, ids: set[str]
) -> None:
    said = frames.encode_message({"event": "processes", "processes": rows})

    async def act(engine: Engine, box: Box) -> None:
        assert {row["id"] for row in await channels.processes(engine, box)} == ids
        assert await channels.running_ids(engine, box) == ids

    with_init(tmp_path, workspace, said, act)


def test_an_init_that_hangs_up_holds_nothing(tmp_path: Path, workspace: Path) -> None:
    async def act(engine: Engine, box: Box) -> None:
        with pytest.raises(Unavailable):
            await channels.processes(engine, box)
        assert await channels.running_ids(engine, box) == set()

    with_init(tmp_path, workspace, b"", act)


def test_a_box_that_does_not_run_has_no_channel(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        with pytest.raises(Unavailable, match="'mine' is not running"):
            channels.connect(runtime.engine(box), box)
        box.handle = ProcessHandle(box.placement, Evidence(pid=os.getpid(), start_ticks=1, boot_id="b"), -1)
        with pytest.raises(Unavailable, match="'mine' does not answer"):
            channels.connect(runtime.engine(box), box)
        box.handle = None

    within(tmp_path, act)


def test_a_box_that_goes_away_is_named(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        ours, theirs = socket.socketpair()
        theirs.close()
        with ours, pytest.raises(Unavailable, match="'mine' went away"):
            await channels.send(box, ours, {"op": "ping"}, [])

    within(tmp_path, act)

"""A build, followed on an event loop."""

from __future__ import annotations

import asyncio
import socket

import pytest

from paddock import codec, frames
from paddock.client._async.builds import AsyncBuild
from paddock.client.aio_transport import AsyncChannel
from paddock.errors import Unavailable
from paddock.model.build import BuildInfo

MADE = BuildInfo(name="a", tag="b", digest="", layers=1, steps=1)


def test_it_is_told_to_its_end() -> None:
    async def act() -> tuple[list[object], BuildInfo | None]:
        ours, theirs = socket.socketpair()
        with ours:
            ours.sendall(frames.encode_message({"event": "step", "number": 1, "line": 2, "words": "RUN x"}))
            ours.sendall(frames.encode(frames.STDOUT, b"said\n"))
            ours.sendall(frames.encode_message({"event": "built", "template": codec.to_wire(MADE)}))
            build = AsyncBuild(AsyncChannel(theirs.detach()))
            assert repr(build) == "<AsyncBuild under way>"
            async with build:
                kinds: list[object] = [event.kind async for event in build.events()]
            assert ours.recv(1) == b"", "it let go"
        return kinds, build.result

    assert asyncio.run(act()) == (["step", "output"], MADE)


def test_a_daemon_that_dies_is_no_end() -> None:
    async def act() -> None:
        ours, theirs = socket.socketpair()
        ours.close()
        await AsyncBuild(AsyncChannel(theirs.detach())).finish()

    with pytest.raises(Unavailable, match="ended during the build"):
        asyncio.run(act())

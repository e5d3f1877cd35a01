"""Who asked for a build is told of it, and ends it by leaving."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client import buildevents
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model.build import BuildInfo
from paddock.runtime import buildtelling

if TYPE_CHECKING:
    from paddock.runtime.buildtelling import Teller, Work

MADE = BuildInfo(name="a", tag="b", digest="", layers=1, steps=1)


def _heard(work: Work) -> list[object]:
    async def act() -> list[object]:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            await buildtelling.serve(theirs, "mine", work)
            decoder, heard = frames.Decoder(), list[object]()
            while data := await asyncio.get_running_loop().sock_recv(ours, 65536):
                for frame in decoder.feed(data):
                    try:
                        heard.append(buildevents.read(frame))
                    except PaddockError as error:
                        heard.append((type(error), error.hint))
            return heard

    return asyncio.run(act())


def test_steps_bytes_and_the_end_are_told() -> None:
    async def work(say: Teller) -> BuildInfo:
        await say.message({"event": "note", "text": "wait"})
        await say.output(frames.STDOUT, b"bytes")
        return MADE

    note, output, end = _heard(work)
    assert (getattr(note, "words", ""), getattr(output, "data", b""), end) == ("wait", b"bytes", MADE)


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (UserError("x", hint="y"), UserError, "y"),
        (OSError(errno.ENOSPC, "full"), Unavailable, "free some space; what was built so far is kept"),
        (OSError(errno.EIO, "broken"), Unavailable, ""),
        (ValueError("broken"), Unavailable, "please report it; the daemon's log has the details"),
    ],
)
def test_what_goes_wrong_is_told(error: Exception, kind: type, hint: str) -> None:
    async def work(_say: Teller) -> BuildInfo:
        raise error

    assert _heard(work) == [(kind, hint)]


def test_a_fault_of_ours_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_say: Teller) -> BuildInfo:
        msg = "this one"
        raise KeyError(msg)

    _heard(work)
    assert "KeyError: 'this one'" in caplog.text


def test_who_leaves_ends_it() -> None:
    ended: list[str] = []

    async def work(_say: Teller) -> BuildInfo:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return MADE

    async def act() -> None:
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(buildtelling.serve(theirs, "mine", work))
        await asyncio.sleep(0)
        ours.close()
        await serving

    asyncio.run(act())
    assert ended == ["cancelled"]

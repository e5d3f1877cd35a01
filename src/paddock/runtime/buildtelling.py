"""Who asked for a build is told of it on a channel of frames (docs/frames.md), and ends it by shutting that."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from typing import TYPE_CHECKING, Final

from paddock import codec, frames
from paddock.errors import PaddockError, Unavailable
from paddock.readiness import within
from paddock.text import neutralise

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from paddock.frames import Message
    from paddock.model.build import BuildInfo

    Work = Callable[["Teller"], Coroutine[None, None, BuildInfo]]

log = logging.getLogger(__name__)
_SEND_S: Final = 600.0  # a terminal may be held, but not for ever: a build has layers leased
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Teller:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def __repr__(self) -> str:
        return f"<Teller {self._channel.fileno()}>"

    async def message(self, message: Message) -> None:
        await self._send(frames.encode_message(message))

    async def output(self, kind: int, data: bytes) -> None:
        await self._send(frames.encode(kind, data))

    async def _send(self, data: bytes) -> None:
        await within(asyncio.get_running_loop().sock_sendall(self._channel, data), _SEND_S)


async def serve(channel: socket.socket, name: str, work: Work) -> None:
    """Do it and tell how it ended; cancel it when the other end is shut."""
    channel.setblocking(False)
    loop = asyncio.get_running_loop()
    with channel:
        building = loop.create_task(_told(Teller(channel), work), name=f"build of {name[:80]}")
        gone = loop.create_task(_until_shut(channel), name="who waits for it")
        try:
            await asyncio.wait({building, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            building.cancel()
            await asyncio.gather(building, gone, return_exceptions=True)


async def _told(say: Teller, work: Work) -> None:
    try:
        made = await work(say)
    except PaddockError as error:
        await say.message({"event": "error", "error": error.to_wire()})
    except OSError as error:
        hint = "free some space; what was built so far is kept" if error.errno in _FULL else ""
        failed = Unavailable(f"the build failed: {error.strerror or error}", hint=hint, code="os")
        await say.message({"event": "error", "error": failed.to_wire()})
    except Exception as error:  # a fault of ours, which must not look like a daemon that died
        log.exception("a build failed")
        what = f"{type(error).__name__}: {neutralise(str(error))}"
        hint = "please report it; the daemon's log has the details"
        failed = Unavailable(f"the build failed: {what}", hint=hint, code="bug")
        await say.message({"event": "error", "error": failed.to_wire()})
    else:
        await say.message({"event": "built", "template": codec.to_wire(made)})


async def _until_shut(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while await asyncio.get_running_loop().sock_recv(channel, 4096):
            pass  # nothing that is said here means anything

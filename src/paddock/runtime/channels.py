"""A channel to the init of a box that should run: opened, asked, and written to, with an error people can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import PaddockError, Unavailable
from paddock.runtime import commands

if TYPE_CHECKING:
    import socket

    from paddock.engines.base import Engine
    from paddock.frames import Message
    from paddock.runtime.box import Box


def connect(engine: Engine, box: Box) -> socket.socket:
    if box.handle is None:
        raise Unavailable(f"the box {box.name!r} is not running", hint="run the command again", code="gone")
    try:
        return engine.connect(box.placement)
    except OSError as error:
        raise Unavailable(
            f"the box {box.name!r} does not answer: {error.strerror}",
            hint=f"`paddock stop {box.name}`, then try again",
            code="gone",
        ) from error


async def send(box: Box, channel: socket.socket, message: Message, fds: list[int]) -> None:
    try:
        await commands.send(channel, message, fds)
    except OSError as error:
        raise Unavailable(
            f"the box {box.name!r} went away: {error.strerror}", hint="run the command again", code="gone"
        ) from error


async def processes(engine: Engine, box: Box) -> list[Message]:
    """The commands that init says it holds now, as far as its answer can be read."""
    with connect(engine, box) as channel:
        rows = (await commands.ask(channel, {"op": "list"})).get("processes")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


async def running_ids(engine: Engine, box: Box) -> set[str]:
    """None where init does not answer. A journal without an end may be of a run that was killed, and does not count."""
    try:
        return {str(row.get("id")) for row in await processes(engine, box)}
    except PaddockError:
        return set()

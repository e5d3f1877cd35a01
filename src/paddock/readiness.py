"""Waiting, in the event loop, until there is something to read: a message, an end, a process that is gone."""

from __future__ import annotations

import asyncio


async def readable(fd: int) -> None:
    """Only one at a time may wait for a descriptor, and nothing else of the loop may read from it meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)

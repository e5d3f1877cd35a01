"""Waiting, in the event loop, until there is something to read: a message, an end, a process that is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def within(awaited: Awaitable[T], seconds: float | None) -> T:
    """TimeoutError after so long. Python 3.11's asyncio.wait_for forgets that it was cancelled when what it waits for
    is done in that moment; who ends a task that goes on for ever then waits for ever.
    """
    async with asyncio.timeout(seconds):
        return await awaited


async def readable(fd: int) -> None:
    """Only one at a time may wait for a descriptor, and nothing else of the loop may read from it meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)

"""Waiting, in the event loop: for something to read, for so long, or for what must not be left half done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

T = TypeVar("T")


async def within(awaited: Awaitable[T], seconds: float | None) -> T:
    """TimeoutError after so long. Python 3.11's asyncio.wait_for forgets that it was cancelled when what it waits for
    is done in that moment; who ends a task that goes on for ever then waits for ever.
    """
    async with asyncio.timeout(seconds):
        return await awaited


async def to_its_end(work: Coroutine[None, None, T]) -> T:
    """Who asked for it may leave: it is finished all the same, and they are gone only then."""
    task = asyncio.get_running_loop().create_task(work, name="to its end")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def readable(fd: int) -> None:
    """Only one at a time may wait for a descriptor, and nothing else of the loop may read from it meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)

"""Work that ends when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from paddock.errors import Unavailable, UserError
from paddock.runtime import leaving


def test_what_it_returns_or_raises_is_told() -> None:
    async def act() -> None:
        assert await leaving.attended(int, "7") == 7
        with pytest.raises(UserError, match="no"):
            await leaving.attended(_refuse)

    asyncio.run(act())


def _refuse() -> None:
    raise UserError("no")


@pytest.mark.parametrize("way", ["waits", "works"])
def test_who_leaves_is_let_go_when_the_thread_has_ended(way: str) -> None:
    reader, writer = os.pipe()
    begun = threading.Event()
    ended: list[str] = []

    def work() -> None:
        begun.set()
        try:
            if way == "waits":
                leaving.readable(reader)
            while True:
                leaving.proceed()
        except Unavailable as error:
            ended.append(error.code)
            raise

    async def act() -> None:
        task = asyncio.create_task(leaving.attended(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["interrupted"]

    try:
        asyncio.run(act())
    finally:
        os.close(reader)
        os.close(writer)


def test_what_can_be_read_is_waited_for_and_outside_of_such_a_thread_nothing_is() -> None:
    reader, writer = os.pipe()
    try:
        leaving.readable(reader)
        leaving.proceed()
        os.write(writer, b"x")
        asyncio.run(leaving.attended(leaving.readable, reader))
    finally:
        os.close(reader)
        os.close(writer)

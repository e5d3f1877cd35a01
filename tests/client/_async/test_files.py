"""Files of a box on an event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.client import AsyncPaddock
from paddock.errors import UserError
from tests.support import contract

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.client import AsyncBox
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def in_box(installation: Installation, act: Callable[[AsyncBox], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            AsyncPaddock(home=str(installation.home)) as paddock,
            await paddock.create("sdk", workspace=str(installation.workspace)) as box,
        ):
            await act(box)

    asyncio.run(run())


def test_many_files_at_once_are_written_and_read(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        data = [os.urandom(300_000) for _ in range(10)]
        await asyncio.gather(*(box.files.write(f"/tmp/{n}", one) for n, one in enumerate(data)))
        assert await asyncio.gather(*(box.files.read(f"/tmp/{n}") for n in range(10))) == data
        assert len(await box.files.list("/tmp")) >= 10

    in_box(installation, act)


def test_making_linking_moving_looking_and_removing(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        files = box.files
        assert (await files.make_dir("/tmp/d/e")).kind == "directory"
        await files.symlink("/tmp/d/link", "/tmp/d/e")
        await files.move("/tmp/d/link", "/tmp/d/moved")
        assert (await files.stat("/tmp/d/moved", follow=True)).kind == "directory"
        assert await files.exists("/tmp/d/moved")
        assert not await files.exists("/tmp/d/link")
        await files.remove("/tmp/d", recursive=True)
        with pytest.raises(UserError) as caught:
            await files.list("/tmp/d")
        assert caught.value.code == "no-file"
        assert repr(files) == "<AsyncFiles of sdk>"

    in_box(installation, act)


def test_a_stream_that_is_left_early_leaves_nothing(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        await box.files.write("/tmp/large", bytes(4 << 20))
        stream = box.files.stream("/tmp/large", offset=5)
        async for chunk in stream:
            assert chunk
            break
        await stream.aclose()  # type: ignore[attr-defined]
        assert (await box.files.stat("/tmp/large")).size == 4 << 20

    in_box(installation, act)


def test_a_watch_is_cancelled_while_it_waits(installation: Installation) -> None:
    async def act(box: AsyncBox) -> None:
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def watch() -> None:
            async for change in box.files.watch("/tmp"):
                await seen.put(change.kind)

        task = asyncio.create_task(watch())
        assert await seen.get() == "watching"
        await box.files.write("/tmp/new", b"")
        assert await seen.get() == "create"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await box.exec(["true"])).ok

    in_box(installation, act)

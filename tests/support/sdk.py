"""Acts on the SDK's event loop, for a while with a box."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.client import AsyncPaddock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.client import AsyncBox
    from tests.support.installation import Installation


def within(installation: Installation, act: Callable[[AsyncPaddock], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncPaddock(home=str(installation.home)) as paddock:
            await act(paddock)

    asyncio.run(run())


def in_box(installation: Installation, act: Callable[[AsyncBox], Awaitable[None]]) -> None:
    async def run(paddock: AsyncPaddock) -> None:
        async with await paddock.create("sdk", workspace=str(installation.workspace)) as box:
            await act(box)

    within(installation, run)

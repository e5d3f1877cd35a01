"""Acts on the SDK's event loop, for a while with a box."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.client import AsyncPaddock
from tests.support import contract

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.client import AsyncBox
    from tests.support.installation import Installation


class _Sdk(AsyncPaddock):
    """Makes boxes of the kind that the test is of."""

    async def call(self, verb: str, **args: object) -> object:
        return await super().call(verb, **contract.current().applied(args))

    async def started(self, verb: str, **args: object) -> tuple[object, list[int]]:
        return await super().started(verb, **contract.current().applied(args))


def within(installation: Installation, act: Callable[[AsyncPaddock], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _Sdk(home=str(installation.home)) as paddock:
            await act(paddock)

    asyncio.run(run())


def in_box(installation: Installation, act: Callable[[AsyncBox], Awaitable[None]]) -> None:
    async def run(paddock: AsyncPaddock) -> None:
        async with await paddock.create("sdk", workspace=str(installation.workspace)) as box:
            await act(box)

    within(installation, run)

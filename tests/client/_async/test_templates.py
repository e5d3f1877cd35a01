"""The SDK's templates on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.client import AsyncPaddock
from tests.runtime.test_loading import LAYER, home, image, put
from tests.support.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["home"]


def test_a_template_comes_in_goes_out_and_goes(home: Path) -> None:
    async def act() -> None:
        async with serving(home), AsyncPaddock(home=str(home)) as paddock:
            templates = paddock.templates
            assert await templates.ls() == []
            (info,) = await templates.load(put(home, image(LAYER)))
            assert await templates.ls() == [info]
            assert (await templates.inspect("team:v1")).layers == info.layers
            digest = await templates.save("team:v1", str(home / "out.tar"))
            (other,) = await templates.load(str(home / "out.tar"), "other:v2")
            assert other.name == "other:v2"
            assert digest.startswith("sha256:")
            await templates.remove("other:v2")
            assert await templates.ls() == [info]

    asyncio.run(act())

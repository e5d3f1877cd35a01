"""Who needs layers in the event loop keeps nobody waiting there."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.images.layers import Layers
from paddock.runtime import leasing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    tmp_path.chmod(0o700)
    return Layers(os.fspath(tmp_path / "layers"))


def test_the_loop_goes_on_while_somebody_holds_the_store(layers: Layers) -> None:
    async def act() -> None:
        with layers._locked():
            waits = asyncio.create_task(_leased(layers))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not waits.done()
        assert len(await waits) == 1

    asyncio.run(act())
    assert os.listdir(f"{layers.root}/leases") == []


async def _leased(layers: Layers) -> list[str]:
    async with leasing.held(layers) as lease:
        assert os.path.isdir(lease.staging)
        return os.listdir(f"{layers.root}/leases")


def test_who_leaves_while_it_waits_leaves_no_lease(layers: Layers) -> None:
    async def act() -> None:
        with layers._locked():
            waits = asyncio.create_task(_leased(layers))
            await asyncio.sleep(0.001)
            waits.cancel()
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(act())
    assert os.listdir(f"{layers.root}/leases") == []

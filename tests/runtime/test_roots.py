"""The gateway knows the host's roots as they are: once for each gateway, and again when they change."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.gateway import trust
from paddock.runtime.roots import Roots

if TYPE_CHECKING:
    from pathlib import Path


class Told:
    """A gateway's ear."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.more = asyncio.Event()

    async def set_roots(self, pem: bytes) -> None:
        self.heard.append(pem)
        self.more.set()
        if pem == b"bad":
            raise UserError("no certificate", code="bad-roots")

    async def next(self) -> bytes:
        await asyncio.wait_for(self.more.wait(), 10)
        self.more.clear()
        return self.heard[-1]


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bundle.pem"
    path.write_bytes(b"one")
    monkeypatch.setattr(trust, "HOST_BUNDLES", (str(tmp_path / "absent.pem"), str(path)))
    return path


def test_each_gateway_is_told_once_and_of_every_change(bundle: Path) -> None:
    async def act() -> None:
        roots, first, second = Roots(), Told(), Told()
        serving = [first]
        assert repr(roots) == "<Roots untold>"
        watching = asyncio.create_task(roots.watch(lambda: serving[-1]))
        try:
            await asyncio.gather(roots.tell(first), roots.tell(first))
            assert first.heard == [b"one"]
            first.more.clear()
            replace(bundle, b"two")
            assert await first.next() == b"two"
            replace(bundle, b"bad")
            assert await first.next() == b"bad"
            replace(bundle, b"three")
            assert await first.next() == b"three", "what was refused is forgotten"
            serving.append(second)
            replace(bundle, b"four")
            await roots.tell(second)
            assert second.heard == [b"four"]
            bundle.unlink()
            await roots.tell(Told())
        finally:
            watching.cancel()
        assert first.heard == [b"one", b"two", b"bad", b"three"]

    asyncio.run(act())


def replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)

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

    async def set_roots(self, pem: bytes) -> None:
        self.heard.append(pem)
        if pem == b"bad":
            raise UserError("no certificate", code="bad-roots")


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bundle.pem"
    path.write_bytes(b"one")
    monkeypatch.setattr(trust, "HOST_BUNDLES", (str(tmp_path / "absent.pem"), str(path)))
    return path


def test_each_gateway_is_told_once_and_of_every_change(bundle: Path) -> None:
    async def act() -> None:
        roots, first, second = Roots(), Told(), Told()
        assert repr(roots) == "<Roots untold>"
        await roots.tell_again(first)
        assert first.heard == [], "who inspects nothing gets none"
        await asyncio.gather(roots.tell(first), roots.tell(first))
        await roots.tell_again(first)
        assert first.heard == [b"one"]
        for content in (b"two", b"bad", b"three"):  # what was refused is forgotten
            replace(bundle, content)
            await roots.tell_again(first)
        replace(bundle, b"four")
        await roots.tell(second)
        await roots.tell_again(first)
        assert second.heard == [b"four"]
        bundle.unlink()
        await roots.tell(Told())
        assert first.heard == [b"one", b"two", b"bad", b"three"]

    asyncio.run(act())


def replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)

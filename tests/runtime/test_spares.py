"""What a box's network needs lies ready, is given away once, and keeps what a log already holds."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.gateway import trust
from paddock.runtime.spares import DENIALS, Spares

if TYPE_CHECKING:
    from pathlib import Path


def test_a_spare_is_moved_into_place_and_another_is_made(tmp_path: Path) -> None:
    async def act() -> None:
        spares = Spares(str(tmp_path / "spare"))
        await spares.fill()
        assert repr(spares) == "<Spares 4 ready>"
        net, logs = str(tmp_path / "net"), [str(tmp_path / "a.0"), str(tmp_path / "a.1")]
        spares.take(net, logs)
        assert {trust.BUNDLE_FILE, trust.AUTHORITY_FILE, DENIALS} <= set(os.listdir(net))
        assert [os.path.getsize(path) for path in logs] == [0, 0]
        modes = [os.stat(path).st_mode & 0o777 for path in (net, *logs, f"{net}/{trust.AUTHORITY_FILE}")]
        assert modes == [0o700, 0o600, 0o600, 0o600]
        first = trust.load(net).certificate_pem
        (tmp_path / "a.0").write_text("kept")
        spares.take(net, logs)
        assert trust.load(net).certificate_pem != first
        assert (tmp_path / "a.0").read_text() == "kept"
        await spares.fill()
        assert len(os.listdir(tmp_path / "spare")) == 4
        await spares.close()

    asyncio.run(act())


def test_without_a_spare_one_is_made_at_once(tmp_path: Path) -> None:
    async def act() -> None:
        spares = Spares(str(tmp_path / "spare"))
        spares.take(str(tmp_path / "net"), [str(tmp_path / "a.0"), str(tmp_path / "a.1")])
        assert trust.load(str(tmp_path / "net")).certificate_pem
        await spares.close()

    asyncio.run(act())


def test_those_of_an_earlier_daemon_are_not_used(tmp_path: Path) -> None:
    async def act() -> None:
        first = Spares(str(tmp_path / "spare"))
        await first.fill()
        left = set(os.listdir(tmp_path / "spare"))
        second = Spares(str(tmp_path / "spare"))
        await second.fill()
        assert set(os.listdir(tmp_path / "spare")) & left == set()

    asyncio.run(act())


def test_without_room_there_are_none_and_whoever_needs_one_hears_of_it(tmp_path: Path) -> None:
    """The task that fills them is one of those without which boxes have no network."""

    async def act() -> None:
        spares = Spares(str(tmp_path / "spare"))
        (tmp_path / "spare").rmdir()
        await spares.fill()
        with pytest.raises(FileNotFoundError):
            spares.take(str(tmp_path / "net"), [str(tmp_path / "a.0"), str(tmp_path / "a.1")])
        await spares.close()

    asyncio.run(act())

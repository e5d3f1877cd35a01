"""What was frozen gets to the disk, and nobody waits for it but a daemon that ends."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from typing import TYPE_CHECKING

from paddock.runtime import flushing
from paddock.runtime.flushing import Flushing

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Disk:
    """Counts what is flushed, which takes as long as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.ends = 0
        monkeypatch.setattr(flushing, "sync", self._sync)

    def _sync(self, _place: str) -> None:
        self.begun.release()
        assert self.may_end.wait(60)
        self.ends += 1


def test_who_asks_while_one_is_under_way_is_served_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    async def act() -> None:
        made = Flushing("/x")
        made.ask()
        assert "begun" in repr(made)
        assert await asyncio.to_thread(disk.begun.acquire, timeout=60)
        for _ in range(5):
            made.ask()
        disk.may_end.set()
        await made.close()
        assert (disk.ends, "idle" in repr(made)) == (2, True)
        made.ask()
        await made.close()
        assert disk.ends == 3

    asyncio.run(act())


def test_a_daemon_that_ends_leaves_nothing_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it has not begun, and waits no longer than it can for what takes long."""
    disk = Disk(monkeypatch)
    monkeypatch.setattr(flushing, "_PATIENCE_S", 0.01)

    async def act() -> None:
        made = Flushing("/x")
        await made.close()
        made.ask()
        await made.close()
        assert disk.begun.acquire(timeout=60)
        disk.may_end.set()

    asyncio.run(act())


def test_what_fails_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_place: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def act() -> None:
        made = Flushing("/x")
        with monkeypatch.context() as patch:
            patch.setattr(flushing, "sync", broken)
            made.ask()
            await made.close()
        assert "Input/output error" in caplog.text
        disk = Disk(monkeypatch)
        disk.may_end.set()
        made.ask()
        await made.close()
        assert disk.ends == 1

    asyncio.run(act())


def test_the_file_system_of_a_directory_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        "paddock.fs.sync_file_systems", lambda fds: seen.extend(os.readlink(f"/proc/self/fd/{fd}") for fd in fds)
    )
    flushing.sync(str(tmp_path))
    assert seen == [str(tmp_path)]

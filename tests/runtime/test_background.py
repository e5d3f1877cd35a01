"""What goes on beside the verbs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.runtime.background import Background

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def within(act: Callable[[Background], Awaitable[None]]) -> None:
    async def run() -> None:
        background = Background()
        try:
            await act(background)
        finally:
            await background.close()

    asyncio.run(run())


def test_writes_are_done_in_their_order_by_one_thread() -> None:
    done: list[tuple[int, int]] = []

    async def act(background: Background) -> None:
        for number in range(50):
            background.queue(lambda number=number: done.append((number, threading.get_ident())))
        assert await background.write(lambda: len(done)) == 50

    within(act)
    assert [number for number, _ in done] == list(range(50))
    assert len({thread for _, thread in done}) == 1


def test_a_write_that_fails_says_so_and_one_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise Unavailable("disk full", code="disk")

    async def act(background: Background) -> None:
        with pytest.raises(Unavailable, match="disk full"):
            await background.write(fail)
        assert caplog.text == ""
        background.queue(fail)
        await background.write(int)

    within(act)
    assert "a record was not written: disk full" in caplog.text


def test_a_task_that_fails_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("why")

    async def act(background: Background) -> None:
        background.later(fail(), "the task")
        assert repr(background) == "<Background 1 tasks, 0 sweeps>"
        while "1 tasks" in repr(background):
            await asyncio.sleep(0)

    within(act)
    assert "the task failed" in caplog.text


def test_closing_cancels_tasks_and_finishes_writes() -> None:
    done: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("cancelled")
            raise

    async def act(background: Background) -> None:
        background.later(forever(), "for ever")
        await asyncio.sleep(0)
        background.queue(done.append, "written")

    within(act)
    assert sorted(done) == ["cancelled", "written"]


def test_closing_waits_a_moment_for_files_to_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    begun: list[str] = []

    def fail(path: str) -> None:
        raise OSError(path)

    def remove(path: str) -> None:
        begun.append(path)
        released.wait(10)

    async def act(background: Background) -> None:
        monkeypatch.setattr("paddock.runtime.background._TRASH_PATIENCE_S", 0.05)
        background.sweep(fail, "/broken")
        for path in ("/a", "/b", "/never"):
            background.sweep(remove, path)

    try:
        within(act)
    finally:
        released.set()
    assert sorted(begun) == ["/a", "/b"]
    assert "emptying the trash: /broken" in caplog.text

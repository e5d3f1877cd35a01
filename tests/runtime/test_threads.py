"""Threads that are there before they are needed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from paddock.errors import Unavailable
from paddock.runtime import threads


def test_all_threads_run_before_any_work_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = threads.pool(3, "early")
    try:
        monkeypatch.setattr(threading.Thread, "start", _no_room)
        barrier = threading.Barrier(3)  # broken unless three of them work side by side
        assert sorted(future.result(10) for future in [executor.submit(barrier.wait, 10) for _ in range(3)]) == [
            0,
            1,
            2,
        ]
    finally:
        executor.shutdown()


def test_without_room_for_a_thread_nothing_is_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: start(self) if "_0" in self.name else _no_room(self))
    with pytest.raises(Unavailable, match="cannot start a thread") as caught:
        threads.pool(3, "early")
    assert "ulimit -u" in caught.value.hint


def _no_room(_thread: threading.Thread) -> None:
    msg = "can't start new thread"
    raise RuntimeError(msg)


def test_work_aside_waits_for_nobody_and_tells_what_became_of_it() -> None:
    go = threading.Event()

    def fail() -> None:
        raise ValueError("no")

    async def act() -> list[object]:
        slow = [asyncio.create_task(threads.aside(go.wait, 30)) for _ in range(40)]  # more than any pool has
        found: list[object] = [await threads.aside(int, "7")]
        with pytest.raises(ValueError, match="no"):
            await threads.aside(fail)
        slow[0].cancel()
        go.set()
        return [*found, *(await asyncio.gather(*slow[1:]))]

    assert asyncio.run(act()) == [7] + [True] * 39


def test_without_room_work_aside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", _no_room)
    with pytest.raises(Unavailable, match="cannot start a thread"):
        asyncio.run(threads.aside(int))

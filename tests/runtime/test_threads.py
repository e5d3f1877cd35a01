"""Threads that are there before they are needed."""

from __future__ import annotations

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

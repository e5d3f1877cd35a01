"""When a run counts as stuck, by a clock that the test winds."""

from __future__ import annotations

from paddock.runs.silence import Silence


def test_nothing_at_all_for_too_long_is_too_long() -> None:
    silence = Silence(60.0, 100.0)
    silence.marks(100.0, "a")
    assert not silence.is_too_long(159.9)
    assert silence.is_too_long(160.0)


def test_whatever_was_written_or_asked_begins_it_anew() -> None:
    silence = Silence(60.0, 0.0)
    silence.marks(0.0, "a")
    silence.marks(50.0, "b")
    silence.marks(109.0, "b")
    assert not silence.is_too_long(109.9)
    assert silence.is_too_long(110.0)


def test_work_begins_it_anew_and_the_timers_of_an_idle_program_do_not() -> None:
    busy, idle = Silence(60.0, 0.0), Silence(60.0, 0.0)
    for second in range(0, 121, 2):
        if busy.wants_processor(second):
            busy.processor(second, second * 0.05)
        if idle.wants_processor(second):
            idle.processor(second, second * 0.001)
    assert not busy.is_too_long(120.0)
    assert idle.is_too_long(120.0)


def test_the_processor_is_looked_at_some_thirty_times_and_no_more() -> None:
    silence = Silence(900.0, 0.0)
    looks = 0
    for second in range(900):
        if silence.wants_processor(second):
            looks += 1
            silence.processor(second, 0.0)
    assert looks == 30


def test_zero_is_never() -> None:
    silence = Silence(0.0, 0.0)
    assert not silence.wants_processor(1.0)
    assert not silence.is_too_long(1e12)

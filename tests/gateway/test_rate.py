"""A bucket lets a burst pass and then a steady stream."""

from __future__ import annotations

import pytest

from paddock.gateway.rate import Rate


@pytest.mark.parametrize(("per_s", "burst", "over_s", "most"), [(10, 5, 0.0, 5), (10, 5, 1.0, 15), (1, 1, 10.0, 11)])
def test_no_more_passes_than_the_burst_and_what_flowed_in(per_s: float, burst: float, over_s: float, most: int) -> None:
    rate = Rate(per_s, burst)
    steps = 1000
    passed = sum(rate.take(100.0 + over_s * step / steps) for step in range(steps + 1))
    assert passed in {most, most - 1}, "rounding may cost one"


def test_time_that_goes_back_gives_nothing() -> None:
    rate = Rate(1, 1)
    assert rate.take(100.0)
    assert not rate.take(50.0)
    assert not rate.take(50.5)


def test_it_says_how_much_is_left() -> None:
    assert repr(Rate(10, 5)) == "<Rate 10/s, 5 left>"

"""A bound on how often something happens: a bucket that fills steadily and holds a burst."""

from __future__ import annotations


class Rate:
    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<Rate {self._per_s}/s, {self._left:.0f} left>"

    def take(self, now: float) -> bool:
        """Whether it may happen once more at the time `now`."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

"""Whether a run is stuck: nothing written, nothing asked, and no processor used, for as long as its agent may take.

Marks are compared, never understood: the time and size of files that grow when something happens. Who sleeps for an
hour on purpose looks the same as who hangs, so the time is the agent's definition's, or its user's.
"""

from __future__ import annotations

import math

_BUSY_SHARE = 0.005  # of one processor: an event loop's own timers take less, reading an answer as it comes takes more
_BUSY_LEAST_S = 0.02  # two ticks of the kernel's clock
_LOOKS = 30  # at the processor, in the time that a run may be silent: it takes a walk over /proc


class Silence:
    """`after_s` of it is too much; zero: never. `now_s` is of any clock that does not jump."""

    def __init__(self, after_s: float, now_s: float) -> None:
        self._after_s = after_s or math.inf
        self._since_s = now_s
        self._mark: object = None
        self._processor: tuple[float, float] | None = None  # when it was looked at, and what had been used

    def __repr__(self) -> str:
        return f"<Silence since {self._since_s:.1f} s, {self._after_s} s are too much>"

    def wants_processor(self, now_s: float) -> bool:
        """Whether it is time to look at that too."""
        if self._after_s == math.inf:
            return False
        return self._processor is None or now_s - self._processor[0] >= self._after_s / _LOOKS

    def processor(self, now_s: float, used_s: float) -> None:
        before = self._processor
        self._processor = now_s, used_s
        if before and used_s - before[1] >= max(_BUSY_LEAST_S, (now_s - before[0]) * _BUSY_SHARE):
            self._since_s = now_s

    def marks(self, now_s: float, mark: object) -> None:
        """What changes when something was written or asked."""
        if mark != self._mark:
            self._mark = mark
            self._since_s = now_s

    def is_too_long(self, now_s: float) -> bool:
        return now_s - self._since_s >= self._after_s

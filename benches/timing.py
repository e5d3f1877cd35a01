"""Taking turns: every round does each thing once, so that a noisy moment hits subject and yardstick alike."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benches.figures import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Action = Callable[[], object]

WARM_ROUNDS = 5


def interleave(
    actions: Mapping[str, Action], rounds: int, *, between: Action | None = None, warm: int = WARM_ROUNDS
) -> dict[str, Samples]:
    """Milliseconds of each action over `rounds` rounds; `between` runs untimed after each of them."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(-warm, rounds):
        for name, action in actions.items():
            spent = milliseconds(action)
            if between:
                between()
            if number >= 0:
                taken[name].append(spent)
    return {name: Samples.of(values) for name, values in taken.items()}


def milliseconds(action: Action) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1e3


def rates(spent: Mapping[str, Samples], size_bytes: int) -> dict[str, Samples]:
    """The same rounds as megabytes (10^6) a second."""
    return {name: Samples.of([size_bytes / 1e3 / ms for ms in taken.values]) for name, taken in spent.items()}

"""A command in a box that already runs, through the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches import yardsticks
from benches.figures import Figure, Target
from benches.timing import interleave

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 300


def measure(installation: Installation) -> list[Figure]:
    with installation.box("exec") as box:
        actions = {"exec": lambda: box.exec(["/bin/true"]), yardsticks.SPAWN: yardsticks.spawn_true}
        taken = interleave(actions, ROUNDS)
    return [
        Figure(
            name="exec_sdk",
            what="command in a running box (SDK exec)",
            unit="ms",
            samples=taken["exec"],
            target=Target(p50_most=3),
            yardsticks=yardsticks.measured(taken, yardsticks.SPAWN),
        )
    ]

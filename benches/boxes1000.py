"""A thousand boxes alive at once: how long each takes to come and to go, and what they add to the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches import machine
from benches.figures import Figure, Samples, Target, amount
from benches.installation import pss_bytes
from benches.timing import interleave, milliseconds

if TYPE_CHECKING:
    from benches.installation import Installation

BOXES = 1000
MIB = 1024 * 1024


def measure(installation: Installation) -> list[Figure]:
    daemon = installation.daemon
    before, available = pss_bytes([daemon]), machine.available_bytes()
    spent = [milliseconds(lambda: installation.box(f"many-{number}")) for number in range(BOXES)]  # noqa: B023
    alive = len(installation.boxes())
    after, left = pss_bytes([daemon]), machine.available_bytes()
    last = installation.sdk.named(f"many-{BOXES - 1}")
    among = interleave({"exec": lambda: last.exec(["/bin/true"]), "run": installation.run_true}, 50)
    removal = milliseconds(installation.sdk.reset)
    settling = milliseconds(installation.settle)
    figures = [
        Figure(
            name="boxes_alive",
            what="boxes alive at once",
            unit="boxes",
            samples=amount(alive),
            target=Target(p50_least=BOXES),
        ),
        _ms("create_first", "create, start and first command, boxes 1 to 100", Samples.of(spent[:100])),
        _ms("create_last", f"the same, boxes {BOXES - 99} to {BOXES}", Samples.of(spent[-100:])),
        _ms("exec_among", f"command in one of {BOXES} boxes (SDK)", among["exec"]),
        _ms("run_among", f"new box beside {BOXES} others, first command done (SDK run)", among["run"]),
        _ms("removal", "reset, per box", amount(removal / BOXES)),
        _ms("settling", "and until nothing is left of them, in all", amount(settling)),
        Figure(
            name="machine_memory",
            what=f"MemAvailable lost per box at {BOXES} boxes",
            unit="MiB",
            samples=amount((available - left) / BOXES / MIB),
        ),
    ]
    if before is not None and after is not None:
        grown = amount((after - before) / MIB)
        what = f"what {BOXES} boxes add to the daemon (PSS)"
        figures.append(Figure(name="daemon_growth", what=what, unit="MiB", samples=grown, target=Target(p50_most=30)))
    return figures


def _ms(name: str, what: str, samples: Samples) -> Figure:
    return Figure(name=name, what=what, unit="ms", samples=samples)

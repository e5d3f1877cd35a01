"""`./paddock` as a shell starts it: most of it is Python's own start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches import yardsticks
from benches.figures import Figure, Target
from benches.installation import PROGRAM
from benches.timing import interleave

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 60
PASS, BARE_PASS = "python3 -c pass", "python3 -I -S -c pass"


def measure(installation: Installation) -> list[Figure]:
    others, absent = yardsticks.sandboxes()
    others.pop("bwrap", None)  # no client: it is held against a new box
    with installation.box("cli"):
        actions = {
            "exec": lambda: yardsticks.run([PROGRAM, "exec", "cli", "true"], installation.environ),
            "version": lambda: yardsticks.run([PROGRAM, "version"], installation.environ),
            "run": lambda: yardsticks.run(
                [PROGRAM, "run", "-q", "-v", f"{installation.workspace}:/mnt/w", "--", "true"], installation.environ
            ),
            PASS: lambda: yardsticks.run(["/usr/bin/python3", "-c", "pass"]),
            BARE_PASS: lambda: yardsticks.run(["/usr/bin/python3", "-I", "-S", "-c", "pass"]),
            **others,
        }
        taken = interleave(actions, ROUNDS)
    pythons = yardsticks.measured(taken, PASS, BARE_PASS)
    foreign = (*yardsticks.measured(taken, *others), *absent)
    return [
        Figure(
            name="exec_cli",
            what="./paddock exec BOX true",
            unit="ms",
            samples=taken["exec"],
            target=Target(p50_most=70),
            yardsticks=(*pythons, *foreign),
        ),
        Figure(name="run_cli", what="./paddock run -- true", unit="ms", samples=taken["run"], yardsticks=pythons),
        Figure(name="version_cli", what="./paddock version", unit="ms", samples=taken["version"], yardsticks=pythons),
    ]

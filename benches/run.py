"""A new box around one command: what `paddock run -- true` costs a program that uses the SDK."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benches import yardsticks
from benches.figures import Figure, Samples, Target
from benches.timing import interleave, milliseconds
from paddock.client import Paddock

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 100
WARM = 3
BACK_TO_BACK = 100
CALLERS = 8
FILES = 4000
RUNS_PER_CALLER = 25


def measure(installation: Installation) -> list[Figure]:
    others, absent = yardsticks.sandboxes()
    project = _project(installation)
    actions = {
        "run": installation.run_true,
        yardsticks.SPAWN: yardsticks.spawn_true,
        **others,
        "project": lambda: installation.sdk.run(["/bin/true"], workspace=project),
    }
    taken = interleave(actions, ROUNDS, between=installation.rest)
    beside = (*yardsticks.measured(taken, yardsticks.SPAWN, *others), *absent)
    return [
        Figure(
            name="run",
            what="new process box, first command done, box gone (SDK run)",
            unit="ms",
            samples=taken["run"],
            target=Target(p50_most=10, p95_most=30),
            yardsticks=beside,
        ),
        Figure(
            name="run_project",
            what=f"the same in a project of {FILES} files",
            unit="ms",
            samples=taken["project"],
            yardsticks=yardsticks.measured(taken, yardsticks.SPAWN),
        ),
        *_kept(installation),
        _back_to_back(installation),
        _at_once(installation),
    ]


def _project(installation: Installation) -> str:
    """A workspace of a usual size: its upper part is looked through for sockets at every start."""
    top = f"{os.path.dirname(installation.workspace)}/project"
    for number in range(FILES):
        directory = f"{top}/{number % 20}/{number % 400}"
        os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/{number}", "w", encoding="ascii") as file:
            file.write("text\n")
    return top


def _kept(installation: Installation) -> list[Figure]:
    """The same for a box that stays, in its parts."""
    rounds = [_one_kept(installation, f"kept-{number}") for number in range(WARM + ROUNDS // 2)][WARM:]
    created, started, again, removed = (list(part) for part in zip(*rounds, strict=True))
    both = [first + second for first, second in zip(created, started, strict=True)]
    target = Target(p50_most=10, p95_most=30)
    rows = (
        ("create_and_exec", "box that stays: create, start, first command done", both, target),
        ("create", "box that stays: create alone", created, None),
        ("first_exec", "box that stays: start and first command", started, None),
        ("second_exec", "box that stays: second command", again, None),
        ("remove", "box that stays: remove while running", removed, None),
    )
    return [
        Figure(name=name, what=what, unit="ms", samples=Samples.of(values), target=target)
        for name, what, values, target in rows
    ]


def _one_kept(installation: Installation, name: str) -> list[float]:
    sdk, box = installation.sdk, installation.sdk.named(name)
    steps = (
        lambda: sdk.create(name, workspace=installation.workspace),
        lambda: box.exec(["/bin/true"]),
        lambda: box.exec(["/bin/true"]),
        lambda: box.remove(force=True),
    )
    spent = [milliseconds(step) for step in steps]
    installation.rest()
    return spent


def _back_to_back(installation: Installation) -> Figure:
    """Without a pause, each run meets the clearing away of the one before."""
    taken = interleave({"run": installation.run_true}, BACK_TO_BACK)
    installation.settle()
    return Figure(
        name="run_back_to_back", what="the same, one after another without a pause", unit="ms", samples=taken["run"]
    )


def _at_once(installation: Installation) -> Figure:
    def caller(_: int) -> None:
        with Paddock(home=installation.home) as sdk:
            for _run in range(RUNS_PER_CALLER):
                assert sdk.run(["/bin/true"], workspace=installation.workspace).ok

    with ThreadPoolExecutor(CALLERS) as pool:
        spent = milliseconds(lambda: list(pool.map(caller, range(CALLERS))))
    installation.settle()
    rate = CALLERS * RUNS_PER_CALLER / spent * 1e3
    return Figure(
        name="runs_at_once", what=f"runs a second, {CALLERS} callers at once", unit="1/s", samples=Samples.of([rate])
    )

"""A template built again with nothing changed: what its cache costs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benches.figures import Figure, Target
from benches.installation import PROGRAM
from benches.timing import interleave
from benches.yardsticks import measured, run

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 20
STEPS = 10
FILES, FILE_BYTES = 1000, 4096
_NOTHING = "python3 -c pass"


def measure(installation: Installation) -> list[Figure]:
    place = f"{os.path.dirname(installation.workspace)}/context"
    _context(place)
    build = [PROGRAM, "template", "build", "-t", "bench:1", place]
    run(build, installation.environ)
    actions = {
        "build": lambda: run(build, installation.environ),
        _NOTHING: lambda: run(["/usr/bin/python3", "-c", "pass"]),
    }
    taken = interleave(actions, ROUNDS)
    return [
        Figure(
            name="build_cached",
            what=f"./paddock template build of {STEPS} steps that are cached, {FILES} files looked at in each COPY",
            unit="ms",
            samples=taken["build"],
            target=Target(p50_most=1000),
            yardsticks=measured(taken, _NOTHING),
        )
    ]


def _context(place: str) -> None:
    """Without a RUN, so that no runtime is needed: a step that is cached is looked up the same way, whatever it is."""
    os.makedirs(f"{place}/files")
    for number in range(FILES):
        with open(f"{place}/files/{number}", "wb") as file:
            file.write(number.to_bytes(4, "big") * (FILE_BYTES // 4))
    lines = [f"COPY files /srv/{number}/" if number % 2 else f"WORKDIR /srv/{number}" for number in range(STEPS)]
    with open(f"{place}/Dockerfile", "w", encoding="utf-8") as file:
        file.write("\n".join(["FROM scratch", *lines, ""]))

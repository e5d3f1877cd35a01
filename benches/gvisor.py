"""Boxes on gVisor: a new one, and keeping one as it runs. By the command line, whose own start is in every figure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from benches import yardsticks
from benches.figures import Figure, Target
from benches.installation import PROGRAM
from benches.timing import interleave

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 9
PROGRAMS = ("sh", "true", "sleep")
BARE, CLIENT = "runsc do true", "./paddock version"
_LIBRARY = re.compile(r"(/\S+) \(0x")


def measure(installation: Installation) -> list[Figure]:
    if not shutil.which("runsc"):
        return []
    root = _root(f"{os.path.dirname(installation.workspace)}/root")
    made = ("--runtime", "runsc", "-t", root)

    def paddock(*words: str) -> None:
        yardsticks.run([PROGRAM, *words], installation.environ)

    options = ("--platform=systrap", "--network=none", "--ignore-cgroups")
    paddock("create", "--name", "kept", *made, "shell", installation.workspace)
    paddock("exec", "kept", "sh", "-c", "sleep 3600 >/dev/null 2>&1 &")
    paddock("checkpoint", "create", "kept", "first")
    names = iter(range(10_000))
    taken = interleave(
        {
            "run": lambda: paddock("run", "-q", *made, "--", "/bin/true"),
            "create": lambda: paddock("checkpoint", "create", "kept", f"n{next(names)}"),
            "restore": lambda: paddock("checkpoint", "restore", "--stop", "kept@first"),
            BARE: lambda: yardsticks.run(["runsc", *options, "do", "true"]),
            CLIENT: lambda: paddock("version"),
        },
        ROUNDS,
        warm=1,
    )
    beside = yardsticks.measured(taken, BARE, CLIENT)
    return [
        Figure(
            name="run_gvisor",
            what="./paddock run --runtime runsc -- true",
            unit="ms",
            samples=taken["run"],
            target=Target(p50_most=300),
            yardsticks=beside,
        ),
        Figure(
            name="checkpoint_gvisor",
            what="a box that runs: checkpoint, and it goes on",
            unit="ms",
            samples=taken["create"],
            yardsticks=beside,
        ),
        Figure(
            name="restore_gvisor",
            what="a box that runs: put back to what ran",
            unit="ms",
            samples=taken["restore"],
            yardsticks=beside,
        ),
    ]


def _root(place: str) -> str:
    """As little as a box needs to be one."""
    for name in ("usr/bin", "etc", "tmp"):
        os.makedirs(f"{place}/{name}")
    os.symlink("usr/bin", f"{place}/bin")
    for name in PROGRAMS:
        program = os.path.realpath(shutil.which(name, path="/usr/bin:/bin") or name)
        shutil.copy(program, f"{place}/usr/bin/{name}")
        found = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20, check=True).stdout
        for path in _LIBRARY.findall(found):
            os.makedirs(f"{place}{os.path.dirname(path)}", exist_ok=True)
            shutil.copy(os.path.realpath(path), f"{place}{path}")
    return place

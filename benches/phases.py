"""Where the time of a start goes: the engine in this process, and the marks each new box takes of itself."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING

from benches.figures import Figure, Samples
from benches.refuser import Refuser
from paddock import fs, paths
from paddock.engines.base import Placement
from paddock.engines.process import engine as process
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.cgroups import Cgroups
from paddock.engines.process.warm import Launcher
from paddock.model import BoxId, BoxRequest
from paddock.runtime.normalise import normalise

if TYPE_CHECKING:
    from benches.installation import Installation
    from paddock.model import BoxSpec

ROUNDS = 50
WARM = 3
_PAUSE_S = 0.03
_WHAT = {
    "ids": "storage, plan, clone, and the box's id maps",
    "network": "the network sealed, its sockets given to the gateway",
    "mounts": "the box's root file system",
    "namespaces": "no further namespaces",
    "pivot": "the old root gone",
    "inner": "the nested user namespace",
    "drop": "capabilities and rlimits",
    "seal": "the gateway's answers to the seal check",
    "confine": "descriptors, Landlock, seccomp",
    "ready": "the word that it is confined",
}


class _Marks(logging.Handler):
    """Keeps the marks of the last start."""

    last: list[tuple[str, float]]

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and record.args and isinstance(record.args[0], list):
            self.last = [(str(step), float(when)) for step, when in record.args[0]]


def measure(installation: Installation) -> list[Figure]:
    spec = normalise(
        BoxRequest(workspace=installation.workspace, ephemeral=True, caller_path="/usr/bin:/bin"),
        private=(installation.home,),
        home=paths.home_directory(),
        taken=(),
    )
    rounds = asyncio.run(_starts(f"{installation.home}/phases", spec))[WARM:]
    steps = [step for step, _ in rounds[0]]
    return [
        Figure(
            name=f"start_{step}",
            what=_WHAT.get(step, step),
            unit="ms",
            samples=Samples.of([row[number][1] for row in rounds]),
        )
        for number, step in enumerate(steps)
    ]


async def _starts(directory: str, spec: BoxSpec) -> list[list[tuple[str, float]]]:
    """Milliseconds of each step, for one box after another."""
    fs.make_private_dir(directory)
    marks = _Marks()
    logger = logging.getLogger(process.__name__)
    level = logger.level
    logger.addHandler(marks)
    logger.setLevel(logging.DEBUG)
    launcher = Launcher(f"{directory}/launcher.log")
    engine = process.ProcessEngine(directory, launcher, Bounds(Cgroups(tag="bench")))
    try:
        await launcher.warm_up()
        places = [_place(directory, spec, number) for number in range(WARM + ROUNDS)]
        with Refuser() as gateway:
            return [await _start(engine, marks, place, gateway) for place in places]
    finally:
        logger.removeHandler(marks)
        logger.setLevel(level)
        await launcher.close()


def _place(directory: str, spec: BoxSpec, number: int) -> Placement:
    storage = f"{directory}/{number}"
    os.mkdir(storage, 0o700)
    return Placement(id=BoxId(f"{number:012x}"), spec=spec, directory=storage, index=0)


async def _start(
    engine: process.ProcessEngine, marks: _Marks, placement: Placement, gateway: Refuser
) -> list[tuple[str, float]]:
    with gateway.door() as door:
        before = time.perf_counter()
        handle = await engine.start(placement, door.fileno())
        ready = time.perf_counter()
    handle.kill()
    await asyncio.sleep(_PAUSE_S)
    handle.close()
    engine.clean(placement)
    spent = []
    for step, when in [*marks.last, ("ready", ready)]:
        spent.append((step, (when - before) * 1e3))
        before = when
    return spent

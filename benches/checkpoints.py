"""Checkpoints of a box that wrote 1 GiB in 50,000 files: made, forked and put back, beside a copy of the same files."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from benches.figures import Figure, Samples, Target
from benches.timing import milliseconds
from benches.yardsticks import measured

if TYPE_CHECKING:
    from benches.installation import Installation
    from paddock.client import Box

ROUNDS = 3
FORKS = 10
FILES, FILE_BYTES = 50_000, 21_475  # 1 GiB
_COPY = "cp -a of the same files"
# Into the home: what a process box has of its own.
_WRITE = f"""
import os
text = b"a line of text " * {FILE_BYTES // 15 + 1}
for number in range({FILES}):
    directory = os.path.expanduser(f"~/tree/{{number // 200}}/{{number // 10}}")
    if number % 10 == 0:
        os.makedirs(directory, exist_ok=True)
    with open(f"{{directory}}/{{number}}", "wb") as file:
        file.write(text[:{FILE_BYTES}])
"""


def measure(installation: Installation) -> list[Figure]:
    taken: dict[str, list[float]] = {}
    grown = 0
    for number in range(ROUNDS):
        box = installation.sdk.create(f"large{number}", workspace=installation.workspace)
        box.exec(["/usr/bin/python3", "-I", "-c", _WRITE], timeout_s=600)
        os.sync()
        for name, spent in _round(installation, box).items():
            taken.setdefault(name, []).append(spent)
        grown = grown or _grown(installation, box)
        box.remove(force=True)
        installation.sdk.call("checkpoint_prune")
    samples = {name: Samples.of(values) for name, values in taken.items()}
    beside = measured(samples, _COPY)
    rows = (
        ("checkpoint", "checkpoint of a box at rest, 1 GiB in 50,000 files", "checkpoint", 50),
        ("fork", "fork of such a checkpoint", "fork", 50),
        ("restore", "restore to it", "restore", 60),
        ("forks", f"{FORKS} forks of it", "forks", 300),
    )
    figures = [
        Figure(name=name, what=what, unit="ms", samples=samples[key], target=Target(p50_most=most), yardsticks=beside)
        for name, what, key, most in rows
    ]
    size = Samples.of([grown / 1024 / FORKS])
    figures.append(Figure(name="fork_disk", what="disk that a fork takes before it writes", unit="KiB", samples=size))
    return figures


def _round(installation: Installation, box: Box) -> dict[str, float]:
    spent = {"checkpoint": milliseconds(lambda: box.checkpoint("first"))}
    forks: list[Box] = []
    spent["fork"] = milliseconds(lambda: forks.extend(box.fork(checkpoint="first")))
    spent["forks"] = milliseconds(lambda: forks.extend(box.fork(FORKS, checkpoint="first")))
    box.exec(["/bin/sh", "-c", "rm -rf ~/tree/1"])
    box.stop()
    spent["restore"] = milliseconds(lambda: box.restore("first"))
    assert box.exec(["/bin/sh", "-c", "ls ~/tree/1 | wc -l"]).stdout.strip() == b"20"
    for fork in forks:
        fork.remove(force=True)
    spent[_COPY] = _copied(installation)
    return spent


def _copied(installation: Installation) -> float:
    """Of the layer that holds the files."""
    layers = f"{installation.home}/state/layers/frozen"
    source = next(f"{layers}/{name}/tree" for name in os.listdir(layers) if os.path.isdir(f"{layers}/{name}/tree/tree"))
    target = f"{installation.home}/state/copy"
    try:
        return milliseconds(lambda: subprocess.run(["cp", "-a", source, target], check=True))
    finally:
        shutil.rmtree(target)


def _grown(installation: Installation, box: Box) -> int:
    before = _used(f"{installation.home}/state")
    forks = box.fork(FORKS, checkpoint="first")
    after = _used(f"{installation.home}/state")
    for fork in forks:
        fork.remove(force=True)
    return after - before


def _used(top: str) -> int:
    done = subprocess.run(["du", "-s", "--block-size=1", top], check=True, capture_output=True)
    return int(done.stdout.split()[0])

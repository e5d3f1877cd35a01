"""What an idle box costs: the memory of everything it adds, at fifty boxes, beside what bwrap adds for the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from benches import machine
from benches.figures import Figure, Target, Yardstick, amount
from benches.installation import family, pss_bytes, until

if TYPE_CHECKING:
    from benches.installation import Installation

BOXES = 50
MIB = 1024 * 1024
_ALL_READABLE = "sum over all processes of ours, the daemon's growth included"
_BY_MEMINFO = "MemAvailable lost, kernel memory included: only root may read the memory of an init"


def measure(installation: Installation) -> list[Figure]:
    daemon = [pid for pid in installation.processes() if pid not in installation.boxes()]
    empty = pss_bytes(daemon)
    figures = []
    if empty is not None:
        what = "daemon and launcher without boxes (PSS)"
        figures.append(
            Figure(name="idle_pss", what=what, unit="MiB", samples=amount(empty / MIB), target=Target(p50_most=60))
        )
    before = _Memory(installation)
    for number in range(BOXES):
        installation.box(f"idle-{number}")
    installation.settle()
    after = _Memory(installation)
    figures += _per_box(before, after)
    installation.sdk.reset()
    installation.settle()
    return figures


class _Memory:
    def __init__(self, installation: Installation) -> None:
        self.pss = pss_bytes(installation.processes())
        self.daemon_pss = pss_bytes([installation.daemon])
        self.kernel = machine.kernel_bytes()
        self.available = machine.available_bytes()


def _per_box(before: _Memory, after: _Memory) -> list[Figure]:
    lost = (before.available - after.available) / BOXES / MIB
    pss = (after.pss - before.pss) / BOXES / MIB if before.pss is not None and after.pss is not None else None
    figures = [
        Figure(
            name="box_memory",
            what=f"memory per idle process box at {BOXES} boxes",
            unit="MiB",
            samples=amount(lost if pss is None else pss),
            target=Target(p50_most=3),
            yardsticks=(_bwrap(),),
            note=_BY_MEMINFO if pss is None else _ALL_READABLE,
        ),
        _plain("box_memory_available", "MemAvailable lost per box, kernel memory included", lost),
        _plain("box_kernel_memory", "slab, page tables, stacks per box", (after.kernel - before.kernel) / BOXES / MIB),
    ]
    if before.daemon_pss is not None and after.daemon_pss is not None:
        grown = (after.daemon_pss - before.daemon_pss) / MIB
        figures.append(_plain("daemon_growth", f"what {BOXES} boxes add to the daemon (PSS)", grown))
    return figures


def _plain(name: str, what: str, mib: float) -> Figure:
    return Figure(name=name, what=what, unit="MiB", samples=amount(mib))


def _bwrap() -> Yardstick:
    """As many of bwrap's processes, without the command inside, which is nobody's cost."""
    name = f"bwrap, {BOXES} alive (PSS)"
    if shutil.which("bwrap") is None:
        return Yardstick(name=name, absent="not on PATH")
    running = [_idle_bwrap() for _ in range(BOXES)]
    try:
        pids = [pid for process in running for pid in family(process.pid) if _command(pid) == "bwrap"]
        total = pss_bytes(pids)
    finally:
        for process in running:
            process.kill()
            process.wait()
    if total is None or not pids:
        return Yardstick(name=name, absent="only root may read its memory")
    return Yardstick(name=name, samples=amount(total / BOXES / MIB))


def _idle_bwrap() -> subprocess.Popen[bytes]:
    argv = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "sleep", "600"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(_command(pid) == "sleep" for pid in family(process.pid)) or process.poll() is not None, "bwrap")
    return process


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return os.path.basename(file.read().strip())
    except OSError:
        return ""

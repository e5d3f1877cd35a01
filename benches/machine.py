"""Which machine this is, and whether it was quiet: a figure taken beside other work is an upper bound, not a result."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from benches.figures import Json

_LOOK_S = 0.5
_LOOKS = 5
_BUSY_MOST = 0.10  # of all processors, by others
_KTHREADD = 2
_STEAL_MOST = 0.02  # what the hypervisor took from us while we measured


def describe() -> Json:
    memory = _meminfo()
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_mib": memory["MemTotal"] // 1024,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "uid": os.getuid(),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The processors over a short time in which we do nothing, and what other processes have used so far."""

    load: float
    busy: float
    steal: float
    ticks: tuple[int, ...]
    foreign: dict[int, int]

    def to_json(self) -> Json:
        return {"load": self.load, "busy": round(self.busy, 3), "steal": round(self.steal, 3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """How the machine was before, after and during a group of figures."""

    before: Look
    after: Look

    @property
    def why_not(self) -> str:
        for when, look in (("before", self.before), ("after", self.after)):
            if look.busy > _BUSY_MOST:
                return f"other work took {look.busy:.0%} of the processors {when} the measurement"
        if self._foreign() > _BUSY_MOST:
            return f"other work took {self._foreign():.0%} of the processors during the measurement"
        if self._stolen() > _STEAL_MOST:
            return f"the hypervisor took {self._stolen():.0%} of the processors"
        return ""

    def to_json(self) -> Json:
        return {
            "quiet": not self.why_not,
            "why_not": self.why_not,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "others": round(self._foreign(), 3),
            "stolen": round(self._stolen(), 3),
        }

    def _stolen(self) -> float:
        return _shares(self.before.ticks, self.after.ticks)[1]

    def _foreign(self) -> float:
        """A process that came and went in between shows in its parent, if that is not init."""
        known = self.before.foreign
        used = sum(ticks - known.get(pid, 0) for pid, ticks in self.after.foreign.items())
        return used / max(1, sum(self.after.ticks) - sum(self.before.ticks))


def look(ours: Collection[int]) -> Look:
    begun = _ticks()
    time.sleep(_LOOK_S)
    ended = _ticks()
    busy, steal = _shares(begun, ended)
    load = os.getloadavg()[0]
    return Look(load=round(load, 2), busy=busy, steal=steal, ticks=ended, foreign=_foreign_ticks(ours))


def kernel_bytes() -> int:
    """What the kernel holds for itself: slabs, page tables, stacks, per-cpu areas."""
    memory = _meminfo()
    return 1024 * sum(memory[name] for name in ("Slab", "PageTables", "KernelStack", "Percpu") if name in memory)


def available_bytes() -> int:
    """The middle of a few looks: other processes come and go."""
    looks = []
    for _ in range(_LOOKS):
        looks.append(1024 * _meminfo()["MemAvailable"])
        time.sleep(_LOOK_S / _LOOKS)
    return sorted(looks)[_LOOKS // 2]


def _ticks() -> tuple[int, ...]:
    with open("/proc/stat", encoding="ascii") as file:
        return tuple(int(word) for word in file.readline().split()[1:9])


def _foreign_ticks(ours: Collection[int]) -> dict[int, int]:
    """Processor time of every process that is not ours, its ended children included; the kernel's own left out."""
    used = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if pid not in ours and pid != _KTHREADD and int(fields[1]) != _KTHREADD:
            used[pid] = sum(int(field) for field in fields[11:15])
    return used


def _shares(begun: tuple[int, ...], ended: tuple[int, ...]) -> tuple[float, float]:
    """The parts of the time between that were not idle, and that were stolen (proc(5): user nice system idle …)."""
    spent = [after - before for before, after in zip(begun, ended, strict=True)]
    total = max(1, sum(spent))
    return 1 - (spent[3] + spent[4]) / total, spent[7] / total


def _meminfo() -> dict[str, int]:
    with open("/proc/meminfo", encoding="ascii") as file:
        return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown")

"""Who holds a process box's limits on this machine: cgroups where we may make them, rlimits and the watch otherwise."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.errors import Unavailable
from paddock.model import LimitReport, Limits

if TYPE_CHECKING:
    from paddock.engines.base import Placement
    from paddock.engines.process.cgroups import Cgroups

log = logging.getLogger(__name__)


def memory_bytes(wanted: Limits) -> int:
    return wanted.memory_bytes or int(_machine_memory() * limits.MEMORY_FRACTION_DEFAULT)


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Bounds:
    """The limits of boxes, as this machine lets us hold them."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups

    def __repr__(self) -> str:
        return f"<Bounds by {', '.join(self._cgroups.parents) or 'rlimits and watch'}>"

    def has_cgroups(self) -> bool:
        return bool(self._cgroups.parents)

    def holds_memory(self) -> bool:
        return "memory" in self._cgroups.parents

    def attach(self, placement: Placement, pid: int) -> None:
        """Before the box runs anything; pids need no cgroup, because RLIMIT_NPROC counts per box."""
        if not self._cgroups.parents:
            return
        wanted = placement.spec.limits
        group = self._cgroups.create(placement.id, memory_bytes=memory_bytes(wanted), cpus=wanted.cpus)
        group.attach(pid)

    def remove(self, placement: Placement) -> str:
        """After the box ended. Waits for processes that are still dying: call it in a thread."""
        group = self._cgroups.adopt(placement.id) if self._cgroups.parents else None
        if group is None:
            return ""
        killed = group.events()
        try:
            group.remove()
        except Unavailable as error:
            log.warning("%s", error)
        if not killed:
            return ""
        return f"memory limit: {killed} of its processes went over {text.size(memory_bytes(placement.spec.limits))}"

    def report(self, placement: Placement, *, running: bool) -> tuple[LimitReport, ...]:
        wanted = placement.spec.limits
        held = self._cgroups.describe(wanted)
        cpus = f"{wanted.cpus:g}" if wanted.cpus else "all"
        disk = wanted.disk_bytes or limits.DISK_BYTES_DEFAULT
        return (
            LimitReport(
                name="memory",
                value=text.size(memory_bytes(wanted)),
                enforcement=held["memory"],
                note=self._memory_note(placement, running=running),
            ),
            LimitReport(name="cpus", value=cpus, enforcement=held["cpus"], note=self._cpu_note(wanted)),
            LimitReport(name="pids", value=str(wanted.pids or limits.PIDS_DEFAULT), enforcement=held["pids"]),
            LimitReport(
                name="disk",
                value=text.size(disk),
                enforcement=held["disk"],
                note="the kernel holds it for one file; the box is ended when all it wrote is more",
            ),
            LimitReport(
                name="wall time",
                value=text.duration(wanted.wall_s) if wanted.wall_s else "none",
                enforcement=held["wall"],
            ),
        )

    def _memory_note(self, placement: Placement, *, running: bool) -> str:
        if not self.holds_memory():
            return "the kernel holds it for one process; the box is ended when all of them together hold more"
        group = self._cgroups.adopt(placement.id) if running else None
        killed = group.events() if group else 0
        return f"{killed} processes were ended at it" if killed else ""

    def _cpu_note(self, wanted: Limits) -> str:
        if wanted.cpus is None or "cpu" in self._cgroups.parents:
            return ""
        return f"--cpus is not enforced here: {self._cgroups.reasons.get('cpu', 'no cpu controller')}"

"""Who holds a process box's limits on this machine: cgroups where we may make them, rlimits and the watch otherwise."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.engines.process import kernel_limits
from paddock.errors import Unavailable
from paddock.model import Enforcement, LimitReport, Limits

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.engines.base import Placement
    from paddock.engines.process.box_cgroup import BoxCgroup, Controller
    from paddock.engines.process.cgroups import Cgroups
    from paddock.model import BoxId

log = logging.getLogger(__name__)
_MEMORY_NOTES = {
    Enforcement.PER_PROCESS: "the kernel holds it for one process; the box is ended when all together hold more",
    Enforcement.WATCHED: "the box is ended when its processes together hold more",
}


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
        """Of a box that is started now."""
        return "memory" in self._cgroups.parents

    def held(self, placement: Placement) -> frozenset[Controller]:
        """The controllers that count a running box: a daemon before us may have had others than we have."""
        group = self._group(placement)
        return frozenset(name for part in group.groups for name in part.controllers) if group else frozenset()

    def killed(self, placement: Placement) -> str:
        """What the kernel did to a running box at its memory limit, in the words of a reason; empty for nothing."""
        group = self._group(placement)
        return _reason(placement, group.events() if group else 0)

    def attach(self, placement: Placement, pid: int) -> None:
        """Before the box runs anything; pids need no cgroup, because RLIMIT_NPROC counts per box."""
        if not self._cgroups.parents:
            return
        wanted = placement.spec.limits
        group = self._cgroups.create(placement.id, memory_bytes=memory_bytes(wanted), cpus=wanted.cpus)
        group.attach(pid)

    def remove(self, placement: Placement) -> str:
        """After the box ended. Waits for processes that are still dying: call it in a thread."""
        group = self._group(placement)
        if group is None:
            return ""
        killed = group.events()
        try:
            group.remove()
        except Unavailable as error:
            log.warning("%s", error)
        return _reason(placement, killed)

    def _group(self, placement: Placement) -> BoxCgroup | None:
        return self._cgroups.adopt(placement.id) if self._cgroups.parents else None

    def sweep(self, alive: Collection[BoxId]) -> list[str]:
        """Remove the cgroups of every box of ours that is not alive, with whatever still runs there."""
        found = []
        for box_id, group in self._cgroups.leftovers().items():
            if box_id in alive:
                continue
            try:
                group.kill()
                group.remove()
            except (OSError, Unavailable) as error:
                log.warning("sweeping the cgroups of %s: %s", box_id, error)
            else:
                found.append(f"cgroups of {box_id}: its box is not running; removed")
        return found

    def report(self, placement: Placement, *, running: bool, own_kernel: bool = False) -> tuple[LimitReport, ...]:
        """`own_kernel`: what this kernel holds a process to is no process's in there."""
        wanted = placement.spec.limits
        have = self.held(placement) if running else frozenset(self._cgroups.parents)
        held = self._cgroups.describe(wanted, have)
        if own_kernel and held["memory"] is Enforcement.PER_PROCESS:
            held["memory"] = Enforcement.WATCHED
        cpus = f"{wanted.cpus:g}" if wanted.cpus else "all"
        return (
            LimitReport(
                name="memory",
                value=text.size(memory_bytes(wanted)),
                enforcement=held["memory"],
                note=_MEMORY_NOTES.get(held["memory"], self.killed(placement) if running else ""),
            ),
            LimitReport(name="cpus", value=cpus, enforcement=held["cpus"], note=self._cpu_note(wanted, have)),
            LimitReport(name="pids", value=str(kernel_limits.pids(wanted)), enforcement=held["pids"]),
            LimitReport(
                name="disk",
                value=text.size(wanted.disk_bytes or limits.DISK_BYTES_DEFAULT),
                enforcement=held["disk"],
                note="the kernel holds it for one file; the box is ended when all it wrote is more",
            ),
            LimitReport(
                name="wall time",
                value=text.duration(wanted.wall_s) if wanted.wall_s else "none",
                enforcement=held["wall"],
            ),
        )

    def _cpu_note(self, wanted: Limits, have: frozenset[Controller]) -> str:
        if wanted.cpus is None or "cpu" in have:
            return ""
        why = self._cgroups.reasons.get("cpu", "the box was started without a cpu controller")
        return f"--cpus is not enforced here: {why}"


def _reason(placement: Placement, killed: int) -> str:
    if not killed:
        return ""
    allowed = text.size(memory_bytes(placement.spec.limits))
    return f"memory limit: {killed} of its processes ended when the box went over {allowed}"

"""Who holds a process box's limits on this machine: cgroups where we may make them, rlimits and the watch otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.model import Enforcement, LimitReport, Limits

if TYPE_CHECKING:
    from paddock.engines.base import Placement


def memory_bytes(wanted: Limits) -> int:
    return wanted.memory_bytes or int(_machine_memory() * limits.MEMORY_FRACTION_DEFAULT)


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Bounds:
    def __init__(self) -> None:
        pass

    def holds_memory(self) -> bool:
        return False

    def attach(self, placement: Placement, pid: int) -> None:
        pass

    def remove(self, placement: Placement) -> str:
        return ""

    def report(self, wanted: Limits) -> tuple[LimitReport, ...]:
        return ()

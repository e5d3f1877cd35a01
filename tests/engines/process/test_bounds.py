"""Who holds the limits of a box on this machine, and what is said about it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from paddock import limits
from paddock.engines.base import Placement
from paddock.engines.process import bounds, cgroups
from paddock.engines.process.bounds import Bounds
from paddock.model import BoxId, BoxSpec, Enforcement, LimitReport, Limits


def placed(**wanted: Any) -> Placement:
    spec = BoxSpec(name="mine", agent="shell", workspace="/w", limits=Limits(**wanted))
    return Placement(id=BoxId("abcdef"), spec=spec, directory="/d", index=0)


def reported(held: Bounds, **wanted: Any) -> dict[str, LimitReport]:
    return {report.name: report for report in held.report(placed(**wanted), running=False)}


NOBODY = Bounds(cgroups.Cgroups(tag="test"))


def test_memory_is_what_was_asked_for_or_most_of_the_machine() -> None:
    assert bounds.memory_bytes(Limits(memory_bytes=12345)) == 12345
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert bounds.memory_bytes(Limits()) == int(machine * limits.MEMORY_FRACTION_DEFAULT)


def test_without_cgroups_nothing_is_made_and_nothing_is_to_be_removed() -> None:
    NOBODY.attach(placed(), os.getpid())
    assert NOBODY.remove(placed()) == ""
    assert not NOBODY.holds_memory()
    assert repr(NOBODY) == "<Bounds by rlimits and watch>"


def test_without_cgroups_the_report_says_so_of_each_limit() -> None:
    found = reported(NOBODY, cpus=2.5)
    assert {name: report.enforcement for name, report in found.items()} == {
        "memory": Enforcement.PER_PROCESS,
        "cpus": Enforcement.NONE,
        "pids": Enforcement.KERNEL,
        "disk": Enforcement.WATCHED,
        "wall time": Enforcement.NONE,
    }
    assert "one process" in found["memory"].note
    assert found["cpus"].note.startswith("--cpus is not enforced here: ")


@pytest.mark.parametrize(
    ("wanted", "name", "value"),
    [
        ({}, "cpus", "all"),
        ({"cpus": 2.5}, "cpus", "2.5"),
        ({}, "pids", str(limits.PIDS_DEFAULT)),
        ({"pids": 7}, "pids", "7"),
        ({}, "disk", "20GiB"),
        ({"disk_bytes": 1 << 20}, "disk", "1MiB"),
        ({"memory_bytes": 1 << 30}, "memory", "1GiB"),
        ({}, "wall time", "none"),
        ({"wall_s": 90.0}, "wall time", "1m30s"),
    ],
)
def test_a_limit_is_told_as_people_write_it(wanted: dict[str, Any], name: str, value: str) -> None:
    assert reported(NOBODY, **wanted)[name].value == value


@pytest.mark.privileged
def test_with_cgroups_a_process_is_held_by_them_until_they_are_removed() -> None:
    held = Bounds(cgroups.find("unittest"))
    if not held.holds_memory():
        pytest.skip("this machine gives us no memory controller")
    place = placed(memory_bytes=64 << 20)
    pid = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
    try:
        held.attach(place, pid)
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            assert "abcdef" in file.read()
        assert reported(held, memory_bytes=64 << 20)["memory"].enforcement is Enforcement.KERNEL
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        assert held.remove(place) == ""
    assert held.remove(place) == "", "twice is no error"

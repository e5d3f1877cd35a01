"""The limits that the kernel holds: those of the spec or the defaults, never above the caller's own."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.engines.process import kernel_limits
from paddock.engines.process import plan as plans
from paddock.model import Limits
from tests.support.plans import ground, made, spec

if TYPE_CHECKING:
    from pathlib import Path


def test_limits_are_those_of_the_spec_or_the_defaults(host: Path) -> None:
    assert made(host).pids == limits.PIDS_DEFAULT
    plan = made(host, limits=Limits(pids=7, disk_bytes=12345, memory_bytes=1 << 29))
    rows = {number: (soft, hard) for number, soft, hard in plan.rlimits}
    assert plan.pids == 7
    assert rows[resource.RLIMIT_FSIZE] == (12345, 12345)
    assert rows[resource.RLIMIT_CORE] == (0, 0)
    assert rows[resource.RLIMIT_DATA] == (1 << 29, 1 << 29)


@pytest.mark.parametrize(
    ("wanted", "by_kernel"), [(Limits(), False), (Limits(), True), (Limits(memory_bytes=1 << 29), True)]
)
def test_memory_is_held_for_each_process_only_where_it_was_asked_for_and_nothing_better_holds_it(
    host: Path, wanted: Limits, by_kernel: bool
) -> None:
    plan = plans.make(spec(host, limits=wanted), ground(host, memory_by_kernel=by_kernel))
    assert resource.RLIMIT_DATA not in [row[0] for row in plan.rlimits]


def test_no_limit_is_above_the_callers_own(host: Path) -> None:
    for number, soft, hard in made(host, limits=Limits(disk_bytes=1 << 59)).rlimits:
        ceiling = resource.getrlimit(number)[1]
        assert soft <= hard
        assert ceiling in {resource.RLIM_INFINITY, hard} or hard < ceiling


def test_namespaces_of_a_box_are_bounded_to_the_one_it_needs(host: Path) -> None:
    wanted = made(host).namespace_limits
    assert wanted["user/max_user_namespaces"] == "1"
    assert {value for key, value in wanted.items() if key.endswith("namespaces")} == {"0", "1"}
    assert wanted["user/max_inotify_instances"] == str(limits.INOTIFY_INSTANCES)


def test_a_box_goes_before_what_the_host_runs_and_never_after_us() -> None:
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        own = int(file.read())
    assert kernel_limits.oom_score_adj() == max(500, own)


def test_processes_are_bounded_by_the_callers_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _number: (5, 9))
    assert [kernel_limits.pids(Limits(pids=wanted)) for wanted in (3, 9, 50, None)] == [3, 9, 9, 9]
    monkeypatch.setattr(resource, "getrlimit", lambda _number: (resource.RLIM_INFINITY,) * 2)
    assert kernel_limits.pids(Limits(pids=50)) == 50

"""The lines at the end of a run; tests/boxes/test_agent_runs.py has them from real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock.cli import runend
from paddock.model import BoxInfo, SecretUse, WorkspaceMode
from paddock.reports import HostCount, RunInfo, TrafficInfo
from tests.support import infos

BOX = replace(infos.BOX, name="mine", agent="claude")
DONE = RunInfo(id="00c0ffee", box="mine", box_id="1", agent="claude", mode="headless", started="t", reason="done")
ON = "`paddock run mine -- --continue` goes on"


def lines(info: RunInfo, box: BoxInfo = BOX, *, stays: bool = True) -> list[str]:
    return list(runend._lines(info, box, stays=stays))


def test_a_run_that_went_well_has_four_lines() -> None:
    assert [line.partition(": ")[0] for line in lines(DONE)] == ["changed", "refused", "cost", "next"]
    assert lines(DONE)[-1] == f"next: {ON}"


@pytest.mark.parametrize(
    ("info", "box", "first", "next_"),
    [
        (replace(DONE, reason="failed", exit_code=3), BOX, "run 00c0ffee failed with exit code 3", ON),
        (
            replace(DONE, reason="auth", why="no"),
            replace(BOX, secrets=(SecretUse(name="github"), SecretUse(name="anthropic"))),
            "run 00c0ffee failed for want of a good key: no",
            "`paddock secret set anthropic` keeps a good key",
        ),
        (replace(DONE, reason="auth"), BOX, "run 00c0ffee failed", "`paddock secret set claude` keeps a good key"),
        (replace(DONE, reason="budget", why="spent"), BOX, "run 00c0ffee budget: spent", "--max-cost DOLLARS mine"),
        (replace(DONE, reason="stuck", why="w"), BOX, "run 00c0ffee stuck: w", "`paddock logs mine/00c0ffee` shows"),
        (
            replace(DONE, reason="denied", network=TrafficInfo(refused=(HostCount(host="x", count=1),))),
            BOX,
            "run 00c0ffee denied",
            "`paddock policy suggest mine` prints rules",
        ),
        (DONE, replace(BOX, mode=WorkspaceMode.REVIEW), "changed", "`paddock apply mine` brings it home"),
        (DONE, replace(BOX, mode=WorkspaceMode.CLONE), "changed", "`paddock git mine log` lists the commits"),
        (DONE, replace(BOX, agent="gone"), "changed", "`paddock run mine` runs it again"),
    ],
)
def test_what_to_do_next_follows_from_what_happened(info: RunInfo, box: BoxInfo, first: str, next_: str) -> None:
    told = lines(info, box)
    assert told[0].startswith(first)
    assert next_ in told[-1]


def test_of_a_box_that_goes_nothing_is_advised_and_a_record_that_is_late_is_named() -> None:
    assert lines(DONE, stays=False)[-1] == "next: `paddock runs show 00c0ffee` tells more"
    (late,) = lines(replace(DONE, reason="running"))
    assert "`paddock runs show 00c0ffee`" in late

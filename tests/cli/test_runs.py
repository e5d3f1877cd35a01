"""How runs are shown; tests/boxes/test_agent_runs.py has real ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.cli import runs
from paddock.reports import ChangedInfo, HostCount, ModelUse, RunInfo, TrafficInfo

if TYPE_CHECKING:
    from tests.support.installation import Installation

INFO = RunInfo(
    id="00c0ffee",
    box="mine",
    box_id="1",
    agent="claude",
    mode="headless",
    started="2030-01-01T10:00:00.000+00:00",
    metered=True,
)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (ChangedInfo(), "nothing"),
        (ChangedInfo(complete=False), "not all of the workspace was looked at"),
        (ChangedInfo(count=1, names=("a",)), "1 file: a"),
        (ChangedInfo(count=7, names=("a", "b", "c")), "7 files: a, b and 5 more"),
        (ChangedInfo(count=2, names=("a", "b"), complete=False), "2 files or more: a, b"),
    ],
)
def test_what_changed_in_a_line(found: ChangedInfo, shown: str) -> None:
    assert runs.changed(found, 2) == shown


def test_what_was_refused_in_a_line() -> None:
    hosts = tuple(HostCount(host=f"h{number}", count=number) for number in range(1, 8))
    network = TrafficInfo(refused=hosts, telemetry=hosts[:1], complete=False)
    told = runs.refused(replace(INFO, network=network))
    assert told == (
        "h1, h2 (2), h3 (3), h4 (4), h5 (5) and 2 more; telemetry, which it does not need: h1; some of the log is lost"
    )
    assert runs.refused(INFO) == "nothing"


def test_what_it_cost_in_a_line() -> None:
    use = ModelUse(provider="anthropic", model="m\x1b[2J", requests=2, input=1000, output=500, cache_read=20)
    info = replace(INFO, usage=(use,), cost_picodollars=12 * 10**9)
    assert runs.cost(info) == r"$0.0120: 2 requests, 1520 tokens of m\x1b[2J"
    assert runs.cost(INFO) == "nothing was used of a model"
    assert runs.cost(replace(INFO, metered=False)).startswith("not counted: ")


@pytest.mark.box
def test_what_is_wrong_is_said(own_installation: Installation) -> None:
    none = own_installation.cli("runs")
    assert (none.returncode, none.stdout) == (0, b"")
    assert b"no run of an agent yet" in none.stderr
    for words, why in (
        (("show",), b"no run is named"),
        (("box", "extra"), b"'box' is no verb of runs"),
        (("show", "abcd"), b"no run 'abcd'"),
        (("show", "../x"), b"is not the id of a run"),
        (("--limit", "many"), b"--limit: 'many' is not a whole number"),
    ):
        done = own_installation.cli("runs", *words)
        assert (done.returncode, done.stdout) == (2, b"")
        assert why in done.stderr
    (own_installation.state / "runs/00000000.json").write_text("{")
    assert b"warning: left out, because they cannot be read: 00000000.json" in own_installation.cli("runs").stderr

"""What a record takes from the box's ledger; tests/runtime/test_runs.py has the rest, in boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.agents import Turn
from paddock.metering.ledger import Line, Report
from paddock.reports import ChangedInfo, ModelUse
from paddock.runtime import runends, runs
from paddock.runtime.box import Ending
from paddock.runtime.journals import JournalState
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


def line(model: str, requests: int, picodollars: int) -> Line:
    return Line(provider="anthropic", model=model, requests=requests, input=10 * requests, picodollars=picodollars)


def test_a_runs_usage_is_what_its_box_used_since_it_began() -> None:
    before = [line("small", 2, 20), line("idle", 1, 1)]
    after = [line("small", 5, 50), line("idle", 1, 1), line("large", 1, 400)]
    assert list(runends.difference(before, after)) == [
        ModelUse(provider="anthropic", model="small", requests=3, input=30, picodollars=30),
        ModelUse(provider="anthropic", model="large", requests=1, input=10, picodollars=400),
    ]
    assert list(runends.difference(after, before)) == [], "a ledger that was lost makes nothing negative"


def test_an_end_without_a_box_a_journal_or_a_workspace_is_told_all_the_same(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        known = Report(box=box.row.id, name=box.name, lines=(line("small", 1, 5),))
        runtime.usages._known[box.row.id] = known
        run = await runs.begin(runtime, box, box.agent, Turn(prompt="p", headless=True))
        active = runtime.runs.active[run]
        runtime.usages._known[box.row.id] = Report(box=box.row.id, name="mine", lines=(line("small", 3, 25),))
        workspace.rmdir()
        info = await runends.info(runtime, active, None, Ending(reason="disk limit: more", exit_code=137))
        assert (info.reason, info.why, info.exit_code) == ("killed", "disk limit: more", 137)
        assert (info.final, info.session) == ("", "")
        assert info.changed == ChangedInfo(complete=False)
        assert (info.cost_picodollars, info.usage[0].requests, info.metered) == (20, 2, False)
        ended = JournalState(running=False, exit_code=3)
        unknown = runends.unknown(active, ended)
        assert (unknown.reason, unknown.exit_code, bool(unknown.ended)) == ("failed", 3, True)
        assert (await runends.info(runtime, active, ended, None)).exit_code == 3
        over = await runends.info(runtime, active, ended, Ending(reason="the budget of $1 is spent", exit_code=78))
        assert (over.reason, over.exit_code) == ("budget", 78)

    within(tmp_path, act)

"""What boxes spent: kept in memory and on disk, said once when it was too much, and bounded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.gateway.control import BoxUsage
from paddock.metering.ledger import Line
from paddock.model import BoxRequest, Budget
from paddock.runtime import usages
from paddock.runtime.usages import Usages
from tests.support.serving import within

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


def at_once(action: Callable[..., object], *args: object) -> None:
    action(*args)


def said(box: Box, requests: int, over: str = "") -> BoxUsage:
    line = Line(provider="openai", model="gpt-5", requests=requests)
    return BoxUsage(id=box.row.id, lines=(line,), over=over)


def test_what_was_heard_is_found_by_the_next_daemon_and_after_the_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(BoxRequest(workspace=os.fspath(workspace), budget=Budget(requests=3)))
        known = Usages(str(tmp_path / "usage"), at_once, lambda *_: None)
        assert known.spending(box).lines == ()
        assert known.all() == []
        known.heard(box, said(box, 2))
        fresh = Usages(str(tmp_path / "usage"), at_once, lambda *_: None)
        assert fresh.spending(box).lines[0].requests == 2
        fresh.forget(box.row.id)
        (report,) = fresh.all()
        assert (report.name, report.budget, report.over) == (box.name, Budget(requests=3), "")

    within(tmp_path / "home", act)


def test_a_budget_that_is_spent_is_said_once_in_each_run_of_a_box_that_has_one(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        rich = await runtime.create(BoxRequest(workspace=os.fspath(workspace)))
        box = await runtime.create(BoxRequest(workspace=os.fspath(workspace), budget=Budget(requests=2)))
        told: list[tuple[str, str]] = []
        known = Usages(str(tmp_path / "usage"), at_once, lambda box, reason: told.append((box.name, reason)))
        for each in (rich, box, box):
            known.heard(each, said(each, 2, "spent"))
        assert told == [(box.name, "spent")]
        known.begins(box)
        known.heard(box, said(box, 2, "spent"))
        assert len(told) == 2

    within(tmp_path / "home", act)


def test_time_runs_while_the_box_does_and_neither_daemon_nor_gateway_loses_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(BoxRequest(workspace=os.fspath(workspace), budget=Budget(seconds=60)))
        now = [100.0]

        def daemon() -> Usages:
            return Usages(str(tmp_path / "usage"), at_once, lambda *_: None, lambda: now[0])

        known = daemon()
        known.rests(box)
        now[0] += 5
        assert known.spending(box).seconds == 0
        known.runs(box)
        now[0] += 7
        known.runs(box)
        assert known.spending(box).seconds == 7
        known.rests(box)
        now[0] += 50
        assert daemon().spending(box).seconds == known.spending(box).seconds == 7
        known.runs(box)
        now[0] += 2
        known.heard(box, BoxUsage(id=box.row.id, seconds=8.5))
        assert known.spending(box).seconds == 9, "a gateway that is new knows less"
        next_one = daemon()
        next_one.heard(box, BoxUsage(id=box.row.id, seconds=30))
        next_one.runs(box)
        now[0] += 1
        assert next_one.spending(box).seconds == 31, "it went on while no daemon ran"

    within(tmp_path / "home", act)


def test_of_boxes_that_are_gone_the_newest_stay(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usages, "USAGES_MAX", 1)

    async def act(runtime: Runtime) -> None:
        boxes = [await runtime.create(BoxRequest(workspace=os.fspath(workspace))) for _ in range(3)]
        known = Usages(str(tmp_path / "usage"), at_once, lambda *_: None)
        for box in boxes:
            known.heard(box, said(box, 1))
        for box in boxes[1:]:
            known.forget(box.row.id)
        known.prune({boxes[0].row.id})
        assert len(known.all()) == 2
        assert boxes[0].row.id in {report.box for report in known.all()}

    within(tmp_path / "home", act)


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    known = Usages(str(tmp_path / "usage"), at_once, lambda *_: None)
    (tmp_path / "usage/abc.json").write_text("{")
    assert known.all() == []

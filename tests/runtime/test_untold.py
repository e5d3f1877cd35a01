"""What waits to be told: kept over daemons, told once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paddock import codec, limits
from paddock.reports import ArrivalInfo, LeaveReport, TrustedInfo
from paddock.runtime import untold
from paddock.runtime.untold import Untold

if TYPE_CHECKING:
    from pathlib import Path

FIRST = LeaveReport(trusted=(TrustedInfo(path=".envrc", why="direnv"),), nested=("a/.git",))
SECOND = LeaveReport(
    trusted=(TrustedInfo(path=".envrc", why="direnv, again"),),
    complete=False,
    arrived=(ArrivalInfo(ref="refs/paddock/box/main", branch="main", oid="1", old=""),),
    problems=("one",),
)


def test_what_is_added_is_there_for_the_next_daemon_and_told_once(tmp_path: Path) -> None:
    Untold(str(tmp_path)).add(FIRST)
    Untold(str(tmp_path)).add(SECOND)
    later = Untold(str(tmp_path))
    both = untold.merged(FIRST, SECOND)
    assert (later.peek(), repr(later)) == (both, f"<Untold {untold.count(both)}>")
    assert later.take() == both
    assert (later.peek(), Untold(str(tmp_path)).peek(), list(tmp_path.iterdir())) == (LeaveReport(), LeaveReport(), [])


def test_nothing_leaves_no_file(tmp_path: Path) -> None:
    Untold(str(tmp_path)).add(LeaveReport())
    assert Untold(str(tmp_path)).take() == LeaveReport()
    assert list(tmp_path.iterdir()) == []


def test_the_later_word_counts_and_none_is_told_twice() -> None:
    both = untold.merged(FIRST, SECOND)
    assert [item.why for item in both.trusted] == ["direnv, again"]
    assert (both.nested, both.complete, both.problems) == (("a/.git",), False, ("one",))
    assert untold.merged(both, both) == both
    assert untold.count(both) == 5
    assert untold.count(LeaveReport()) == 0


def test_a_damaged_record_is_a_problem_and_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "left.json").write_text("{")
    assert "could not be read" in Untold(str(tmp_path)).take().problems[0]
    assert Untold(str(tmp_path)).take() == LeaveReport()


def test_a_flood_is_cut(tmp_path: Path) -> None:
    for length in (10, 4000):
        many = LeaveReport(nested=tuple(f"{number:0{length}d}/.git" for number in range(1000)))
        Untold(str(tmp_path)).add(many)
        told = Untold(str(tmp_path)).take()
        assert len(told.nested) in {200, 49}
        assert told.problems == (f"the box left {1000 - len(told.nested)} more than can be named here",)
        assert len(json.dumps(codec.to_wire(told))) < limits.FRAME_MESSAGE_BYTES / 2

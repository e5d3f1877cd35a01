from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.limits import REVIEW_UNDO_MAX
from paddock.workspace.entries import NOTHING, Entry, Seen
from paddock.workspace.plan import Action, Operation
from paddock.workspace.runs import Done, Outcome, Run, Runs

if TYPE_CHECKING:
    from pathlib import Path

ODD = "line\nbreak \udcff"
AFTER = Seen(entry=Entry.FILE, mode=0o644, size=3, digest="d")
OPERATION = Operation(action=Action.WRITE, path=ODD, before=NOTHING, after=AFTER, source=ODD)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    tmp_path.chmod(0o700)
    return Runs(os.fspath(tmp_path / "runs"))


def finished(runs: Runs, *errors: str, undoes: int = 0) -> Run:
    run = runs.begin((OPERATION,) * len(errors), undoes=undoes)
    run.finish(Outcome(done=tuple(Done(path=ODD, error=error) for error in errors)))
    run.settle()
    return run


def test_a_run_without_its_end_is_interrupted_and_read_back_as_it_was(runs: Runs) -> None:
    begun = runs.begin((OPERATION,))
    assert runs.interrupted() == [begun]
    assert begun.outcome() is None
    assert repr(begun) == "<Run 1 of 1 operations>"


def test_a_run_is_interrupted_until_the_upper_has_followed(runs: Runs) -> None:
    run = runs.begin((OPERATION,))
    run.finish(Outcome(done=(Done(path=ODD),)))
    assert runs.interrupted() == [run]
    run.settle()
    assert runs.interrupted() == []
    assert run.outcome() == Outcome(done=(Done(path=ODD),))


def test_temporary_names_are_of_one_run_and_operation(runs: Runs) -> None:
    one, other = runs.begin(()), runs.begin(())
    assert len({one.temporary(0), one.temporary(1), other.temporary(0)}) == 3


def test_the_last_run_is_the_newest_that_did_something_and_is_not_taken_back(runs: Runs) -> None:
    assert runs.last() is None
    first = finished(runs, "", "failed")
    finished(runs, "failed")
    assert runs.last() == first
    second = finished(runs, "")
    assert runs.last() == second
    second.spend()
    finished(runs, "", undoes=second.number)
    assert runs.last() == first


def test_a_directory_without_an_intent_did_nothing(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "runs/7").mkdir(parents=True)
    (tmp_path / "runs").chmod(0o700)
    assert runs.interrupted() == []
    assert runs.begin(()).number == 8


def test_an_unreadable_record_is_an_error_that_names_it(runs: Runs) -> None:
    run = runs.begin(())
    with open(os.path.join(run.directory, "intent.json"), "w", encoding="ascii") as file:
        file.write("{")
    with pytest.raises(Unavailable, match=r"intent\.json"):
        runs.interrupted()


def test_old_runs_are_dropped(runs: Runs, tmp_path: Path) -> None:
    for _ in range(REVIEW_UNDO_MAX + 3):
        finished(runs, "")
    runs.prune()
    assert len(os.listdir(tmp_path / "runs")) == REVIEW_UNDO_MAX
    assert runs.get(1) is None
    assert runs.get(REVIEW_UNDO_MAX + 3) is not None

"""Reviews in the caller's process, on layers as a box leaves them; tests/boxes/test_applying.py has real boxes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.client.reviewing import Reviewing
from paddock.errors import UserError
from paddock.model import WorkspaceMode
from paddock.paths import Paths
from paddock.workspace import gitdir, repository, review
from paddock.workspace.danger import Examiner
from paddock.workspace.review import Review
from tests.support.infos import BOX
from tests.workspace.scenes import commit, make_repository

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from paddock.model import BoxInfo
    from paddock.workspace.changes import Change
    from paddock.workspace.danger import Danger
    from paddock.workspace.plan import Plan, Withheld


def info(workspace: Path, mode: WorkspaceMode = WorkspaceMode.REVIEW) -> BoxInfo:
    return replace(BOX, workspace=str(workspace), mode=mode)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    (place / "old").write_text("old\n")
    return place


@pytest.fixture
def upper(tmp_path: Path, workspace: Path) -> Path:
    directory = tmp_path / "home" / "state" / "boxes" / "abc"
    directory.mkdir(parents=True)
    with review.at(str(workspace), str(directory)) as opened:
        opened.opened()
    return directory / "review" / "upper"


@pytest.fixture
def reviewing(tmp_path: Path, workspace: Path, upper: Path) -> Reviewing:
    assert upper.is_dir()
    return Reviewing(Paths({"PADDOCK_HOME": str(tmp_path / "home")}), info(workspace))


@pytest.mark.parametrize("mode", [WorkspaceMode.LIVE, WorkspaceMode.CLONE])
def test_only_a_review_box_has_one(tmp_path: Path, mode: WorkspaceMode) -> None:
    with pytest.raises(UserError, match=f"{mode.value} box") as caught:
        Reviewing(Paths({"PADDOCK_HOME": str(tmp_path)}), info(tmp_path, mode))
    assert caught.value.hint


def test_it_shows_the_box_and_the_workspace(reviewing: Reviewing, workspace: Path) -> None:
    assert repr(reviewing).endswith(f"/state/boxes/abc over {workspace}>")


def test_dangers_come_home_when_named_or_answered_with_yes(reviewing: Reviewing, workspace: Path, upper: Path) -> None:
    for name in ("Makefile", "justfile", "plain"):
        (upper / name).write_text(f"{name}\n")
    asked: list[str] = []

    def answer(plan: Plan, danger: Withheld) -> bool:
        assert danger in plan.dangers
        asked.append(danger.path)
        return danger.path == "Makefile"

    dry = reviewing.apply(dry_run=True)
    assert {item.path for item in dry.plan.withheld} == {"Makefile", "justfile"}
    assert (dry.result, sorted(os.listdir(workspace))) == (None, ["old"])
    assert not reviewing.apply(accept=answer).is_whole
    assert sorted(asked) == ["Makefile", "justfile"]
    assert sorted(os.listdir(workspace)) == ["Makefile", "old", "plain"]
    assert reviewing.apply(accept=["justfile"]).is_whole
    assert reviewing.apply().result is None, "there is nothing left"


def test_a_yes_is_to_what_was_shown_and_not_to_what_came_after(
    reviewing: Reviewing, workspace: Path, upper: Path
) -> None:
    (upper / "Makefile").write_text("shown\n")

    def answer(_plan: Plan, _danger: Withheld) -> bool:
        (upper / "Makefile").write_text("other\n")
        return True

    done = reviewing.apply(accept=answer)
    assert (done.is_whole, (workspace / "Makefile").exists()) == (False, False)
    (upper / "Makefile").write_text("shown\n")
    assert reviewing.apply(accept=lambda _plan, _danger: True).is_whole, "the oracle: without a change it comes home"


def test_a_yes_to_all_is_to_all_that_was_shown(reviewing: Reviewing, workspace: Path, upper: Path) -> None:
    """The box still runs while a person reads the list."""
    (upper / "shown").write_text("shown\n")
    assert reviewing.apply(confirm=lambda _plan: False).result is None
    assert sorted(os.listdir(workspace)) == ["old"]

    def confirm(plan: Plan) -> bool:
        (upper / "later").write_text("later\n")
        return [one.path for one in plan.operations] == ["shown"]

    assert reviewing.apply(confirm=confirm).is_whole
    assert sorted(os.listdir(workspace)) == ["old", "shown"]
    assert [one.path for one in reviewing.diff()] == ["later"]


@pytest.mark.parametrize("flips", [False, True])
def test_what_is_merged_is_what_the_danger_report_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, flips: bool
) -> None:
    work = make_repository(tmp_path / "project")
    text = '{\n "name": "x",\n\n\n\n\n "version": "1"\n}\n'
    commit(work, "package.json", text)
    directory = tmp_path / "home/state/boxes/abc"
    found = repository.find(str(work))
    gitdir.make(f"{directory}/git", found, who=gitdir.Identity())
    with review.at(str(work), str(directory)) as opened:
        opened.opened()
    place = directory / "review/upper/package.json"
    place.write_text(text.replace('"1"', '"2"'))
    (work / "package.json").write_text(text.replace('"x"', '"y"'))
    merge = Review.merged

    def merged(self: Review, path: str, ancestor: bytes) -> bytes | None:
        if flips:
            place.write_text(text.replace('"1"', '"2", "scripts": {"postinstall": "evil"}'))
        return merge(self, path, ancestor)

    monkeypatch.setattr(Review, "merged", merged)
    done = Reviewing(Paths({"PADDOCK_HOME": str(tmp_path / "home")}), info(work)).apply(merge=True)
    assert ('"2"' in (work / "package.json").read_text()) is not flips, done
    assert "evil" not in (work / "package.json").read_text()


def test_diff_discard_and_undo_are_the_reviews_own(reviewing: Reviewing, workspace: Path, upper: Path) -> None:
    (upper / "new").write_text("new\n")
    (upper / "other").write_text("other\n")
    assert [one.path for one in reviewing.diff()] == ["new", "other"]
    assert [one.lines for one in reviewing.diff(["new"], with_lines=False)] == [()]
    reviewing.discard(["other"])
    assert reviewing.apply().is_whole
    assert sorted(os.listdir(workspace)) == ["new", "old"]
    assert not any(done.error for done in reviewing.undo().done)
    assert sorted(os.listdir(workspace)) == ["old"]


@pytest.mark.parametrize("flips", [False, True])
def test_what_the_danger_report_read_is_what_comes_home(
    reviewing: Reviewing, workspace: Path, upper: Path, monkeypatch: pytest.MonkeyPatch, *, flips: bool
) -> None:
    (upper / "plain").write_text("harmless\n")
    examine = Examiner.examine

    def examined(self: Examiner, changes: Iterable[Change]) -> dict[str, tuple[Danger, ...]]:
        found = examine(self, changes)
        if flips:
            (upper / "plain").write_text("\N{RIGHT-TO-LEFT OVERRIDE}hidden\n")
        return found

    monkeypatch.setattr(Examiner, "examine", examined)
    done = reviewing.apply()
    assert (done.is_whole, (workspace / "plain").exists()) == (not flips, not flips)

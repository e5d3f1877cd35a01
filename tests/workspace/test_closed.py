"""Live mode's further mounts: what the host's git obeys inside the workspace is closed, and nothing is left behind."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.workspace import closed, nested, repository
from tests.workspace.scenes import View, git, make_repository, snapshot, with_submodule

if TYPE_CHECKING:
    from pathlib import Path


def guards(work: Path, private: Path) -> closed.Guards:
    private.mkdir(mode=0o700, exist_ok=True)
    found = repository.find(os.fspath(work))
    return closed.guards(os.fspath(private), found, nested.find(os.fspath(work)).nested)


def rows(made: closed.Guards, work: Path) -> list[tuple[str, bool, bool]]:
    """Target below the workspace, whether it shows itself, whether it is read-only."""
    return [
        (os.path.relpath(mount.target, work), mount.source == mount.target, mount.read_only) for mount in made.mounts
    ]


def test_a_plain_repository_needs_none(tmp_path: Path) -> None:
    assert guards(make_repository(tmp_path / "work"), tmp_path / "private") == closed.Guards(mounts=())


def test_repositories_inside_are_read_only_and_their_way_is_pinned(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    make_repository(work / "a/b")
    made = guards(work, tmp_path / "private")
    assert rows(made, work) == [("a", True, False), ("a/b", True, False), ("a/b/.git", True, True)]
    view = View(work, tmp_path / "view")
    assert (
        view.run("cd a/b; git log -1 --format=%s; echo new > file; git status --short") == "change dir/inner\n M file\n"
    )
    for old in ("a", "a/b", "a/b/.git", "a/b/.git/HEAD"):
        assert view.attempt(f'/usr/bin/python3 -c \'import os; os.rename("{old}", "c")\'').returncode, old
    for act in ("rm a/b/.git/HEAD", "echo x >> a/b/.git/config", "rmdir a/b/.git/hooks", "touch a/b/.git/commondir"):
        assert view.attempt(act).returncode, act
    view.run("mv a/b/dir a/b/else; echo x > a/new; rm a/new")  # all else is the box's


def test_the_pointers_of_submodules_stay_and_work_tree_files_are_free(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    made = guards(work, tmp_path / "private")
    assert rows(made, work) == [("libs", True, False), ("libs/sub", True, False), ("libs/sub/.git", True, True)]


def test_they_are_closed_even_when_the_search_found_none(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    git(work, "worktree", "add", "-q", "-b", "side", "trees/side")
    (tmp_path / "private").mkdir(mode=0o700)
    made = closed.guards(os.fspath(tmp_path / "private"), repository.find(os.fspath(work)), ())
    assert {path for path, _, read_only in rows(made, work) if read_only} == {"libs/sub/.git", "trees/side/.git"}


@pytest.mark.parametrize("state", ["empty", "missing", "filled"])
def test_a_submodule_that_is_not_checked_out_is_the_boxs_own(tmp_path: Path, state: str) -> None:
    with_submodule(tmp_path)
    git(tmp_path, "clone", "-q", "super", "work")
    work = tmp_path / "work"
    if state == "missing":
        (work / "libs/sub").rmdir()
        (work / "libs").rmdir()
    elif state == "filled":
        (work / "libs/sub/mine").write_text("x")
    before = snapshot(work)
    view = View(work, tmp_path / "private")
    script = "git -c protocol.file.allow=always submodule --quiet update --init; cat libs/sub/file"
    if state != "filled":
        assert view.run(script) == "one\n"
    else:
        view.run("echo x > libs/sub/.git/HEAD")
    after = snapshot(work)
    assert {path: text for path, text in after.items() if not path.startswith(".git")} == {
        path: text for path, text in before.items() if not path.startswith(".git")
    }
    assert "libs/sub/.git" not in after


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_submodules_place_that_cannot_be_closed_is_refused(tmp_path: Path, kind: str) -> None:
    with_submodule(tmp_path)
    git(tmp_path, "clone", "-q", "super", "work")
    place = tmp_path / "work/libs/sub"
    place.rmdir()
    if kind == "link":
        place.symlink_to("/")
    else:
        place.write_text("x")
    with pytest.raises(UserError, match="cannot be protected"):
        guards(tmp_path / "work", tmp_path / "private")


def test_a_link_called_git_is_refused(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / "a").mkdir()
    (work / "a/.git").symlink_to("../elsewhere")
    with pytest.raises(UserError, match=r"a/\.git is a link"):
        guards(work, tmp_path / "private")


def test_too_many_to_close_are_refused(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    item = nested.Nested(path="a/.git", form=nested.Form.DIRECTORY, changed_ns=0)
    (tmp_path / "private").mkdir(mode=0o700)
    with pytest.raises(UserError, match="too many to protect") as refused:
        closed.guards(
            os.fspath(tmp_path / "private"), repository.find(os.fspath(work)), (item,) * (limits.NESTED_MAX + 1)
        )
    assert "--review" in refused.value.hint


def test_a_workspace_without_a_repository_gets_a_place_for_one_and_loses_it_again(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    made = guards(work, tmp_path / "private")
    assert rows(made, work) == [(".git", False, False)]
    assert made.placeholders == (".git",)
    assert os.listdir(work / ".git") == []
    closed.tidy(os.fspath(work), made.placeholders)
    assert os.listdir(work) == []


def test_boxes_that_start_at_the_same_moment_share_a_place(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    together = threading.Barrier(8)

    def start(number: int) -> closed.Guards:
        together.wait(10)
        return guards(work, tmp_path / f"private-{number}")

    with ThreadPoolExecutor(8) as pool:
        for turn in range(20):
            made = list(pool.map(start, range(8 * turn, 8 * turn + 8)))
            assert [rows(one, work) for one in made] == [[(".git", False, False)]] * 8
            assert [one.placeholders for one in made if one.placeholders] == [(".git",)], "one of them made it"
            closed.tidy(os.fspath(work), (".git",))
            assert os.listdir(work) == []


def test_what_is_not_empty_is_not_taken_away(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    made = guards(work, tmp_path / "private")
    git(work, "init", "-q")  # on the host, while the box ran
    closed.tidy(os.fspath(work), (*made.placeholders, "missing/.git"))
    assert (work / ".git/HEAD").exists()


def test_taking_away_does_not_follow_links(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "outside/.git").mkdir(parents=True)
    (work / "a").symlink_to(tmp_path / "outside")
    closed.tidy(os.fspath(work), ("a/.git",))
    assert (tmp_path / "outside/.git").is_dir()

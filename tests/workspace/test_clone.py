"""Clone mode: a checkout of the box's own on a branch of its own, at the workspace's path."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace import clone, gitdir, home, repository
from tests.workspace.scenes import enter, git, make_repository, snapshot, with_submodule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box

WHO = gitdir.Identity(name="Somebody", email="some@example.com")


def make(work: Path, private: Path, branch: str = "fix/x") -> clone.Clone:
    return clone.make(os.fspath(private), repository.find(os.fspath(work)), branch=branch, who=WHO)


def run(made: clone.Clone, script: str, work: Path, private: Path) -> str:
    done = enter(list(made.private.mounts), script, work, private)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["plain", "worktree", "submodule", "sha256", "detached"])
def test_the_box_works_on_its_branch_and_the_host_sees_nothing_until_it_comes_home(tmp_path: Path, kind: str) -> None:
    if kind == "submodule":
        work = with_submodule(tmp_path) / "libs/sub"
    else:
        work = make_repository(tmp_path / "work", *(["--object-format=sha256"] if kind == "sha256" else []))
    if kind == "worktree":
        git(work, "worktree", "add", "-q", "-b", "side", "../side")
        work = tmp_path / "side"
    if kind == "detached":
        git(work, "checkout", "-q", "--detach")
    (work / "file").write_text("not committed\n")
    before = snapshot(tmp_path)
    private = tmp_path / "private"
    made = make(work, private)
    assert run(made, "cat file; git branch --show-current; git status --short", work, private) == "one\nfix/x\n"
    run(made, "echo new > file; git commit -qam inside; touch more", work, private)
    after = {path: state for path, state in snapshot(tmp_path).items() if not path.startswith("private")}
    assert after == before
    unit = made.private.units[0]
    run(made, shlex.join(home.bundle_argv(unit)), work, private)
    assert [item.ref for item in home.fetch(unit, "box", f"{private}/scratch").arrived] == ["refs/paddock/box/fix/x"]
    assert git(work, "show", "refs/paddock/box/fix/x:file") == "new\n"
    assert (work / "file").read_text() == "not committed\n"


def test_an_empty_repository_can_be_cloned(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init", "-q", "-b", "main")
    made = make(tmp_path / "work", tmp_path / "private")
    script = "git commit -q --allow-empty -m first; git branch --show-current"
    assert run(made, script, tmp_path / "work", tmp_path / "private") == "fix/x\n"


def test_submodules_can_be_checked_out_inside_without_a_network(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    made = make(work, tmp_path / "private")
    assert run(made, "ls libs/sub", work, tmp_path / "private") == ""
    script = "git submodule --quiet update --init; cat libs/sub/file"
    assert run(made, script, work, tmp_path / "private") == "one\n"


def test_a_clone_is_known_again_after_a_restart(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    found = repository.find(os.fspath(work))
    assert clone.load(os.fspath(tmp_path / "private"), found, "fix/x") is None
    made = make(work, tmp_path / "private")
    assert clone.load(os.fspath(tmp_path / "private"), found, "fix/x") == made


@pytest.mark.parametrize("branch", ["", "HEAD", "-x", "a..b", "a b", "$(x)", "a.lock", "/a", "a/", "a\x1b", "é"])
def test_a_branch_that_is_no_plain_name_is_refused(tmp_path: Path, branch: str) -> None:
    with pytest.raises(UserError, match="is not a branch name"):
        make(make_repository(tmp_path / "work"), tmp_path / "private", branch)
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize("branch", ["main", "other", "other/x", "a"])
def test_a_branch_that_is_there_is_refused(tmp_path: Path, branch: str) -> None:
    work = make_repository(tmp_path / "work")
    git(work, "branch", "a/b")
    with pytest.raises(UserError, match="has a branch"):
        make(work, tmp_path / "private", branch)


def test_a_directory_without_a_repository_cannot_be_cloned(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with pytest.raises(UserError, match="no repository"):
        make(tmp_path / "work", tmp_path / "private")

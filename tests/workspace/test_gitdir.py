"""A box's own gitdir: git works in it as on the host, and the host's `.git` stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace import gitdir, repository
from tests.workspace.scenes import View, commit, git, make_repository, snapshot, with_submodule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box


@pytest.fixture
def view(tmp_path: Path) -> View:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    return View(make_repository(tmp_path / "work"), tmp_path / "private", user_home=tmp_path)


HOOK = "printf '#!/bin/sh\\necho hook\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
REBASE = "git checkout -q other; echo o > o; git add o; git commit -qm o; git rebase -q main; git log --format=%s"
GC = "echo x > x; git add x; git commit -qm x; git gc -q --prune=now; git log --format=%s -1; git fsck"
WORKTREE = "git worktree add -q wt other; cd wt; git log --format=%s; git commit -q --allow-empty -m x; cd ..; ls wt"
WORK = {
    "status": ("echo new > file; touch untracked; git status --porcelain", " M file\n?? untracked\n"),
    "log": ("git log --format=%s", "change dir/inner\nchange file\n"),
    "commit": ("echo new > file; git commit -qam inside; git log -1 --format='%s %an'", "inside Somebody\n"),
    "branch": ("git checkout -q -b fix; git branch --format='%(refname:short)'", "fix\nmain\nother\n"),
    "stash": ("echo new > file; git stash -q; cat file; git stash pop -q; cat file", "one\nnew\n"),
    "worktree": (WORKTREE, "change file\nfile\n"),
    "rebase": (REBASE, "o\nchange dir/inner\nchange file\n"),
    "merge": ("git checkout -q other; git merge -q main; git rev-list --count HEAD", "2\n"),
    "reset": ("git reset -q --hard HEAD~1; ls", "file\n"),
    "gc": (GC, "x\n"),
    "hooks": (f"{HOOK}; git commit -q --allow-empty -m x 2>&1", "hook\n"),
    "config": ("git config core.editor true; git config core.editor", "true\n"),
    "tag": ("git tag -a -m tag v1; git describe", "v1\n"),
}


@pytest.mark.parametrize("name", WORK)
def test_git_works_inside_and_the_hosts_repository_stays_as_it_is(view: View, tmp_path: Path, name: str) -> None:
    before = snapshot(view.workspace / ".git")
    script, said = WORK[name]
    assert view.run(script) == said
    assert snapshot(view.workspace / ".git") == before
    git(view.workspace, "fsck", "--strict")
    twin = make_repository(tmp_path / "twin")  # the oracle: without the box the same script writes to .git
    before = snapshot(twin / ".git")
    env = {"PATH": "/usr/bin:/bin", "HOME": os.fspath(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["sh", "-euc", script], cwd=twin, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == said
    assert name in {"log", "status"} or snapshot(twin / ".git") != before


def test_a_repository_made_elsewhere_in_the_box_has_the_same_identity(view: View) -> None:
    place = view.private_dir / "elsewhere"
    script = f"git init -q {place}; cd {place}; git commit -q --allow-empty -m x; git log --format='%an %ae'"
    assert view.run(script) == "Somebody some@example.com\n"


def test_the_identity_cannot_be_changed_for_the_host(view: View) -> None:
    assert view.attempt("git config --system user.name other").returncode
    assert view.run("git config --global user.name other; git config user.name") == "other\n"  # for itself it can
    assert "Somebody" in (view.user_home / ".gitconfig").read_text()


def test_the_identity_follows_the_users_own_conditions(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    text = f'[user]\n\tname = Private\n[includeIf "gitdir:{work}/"]\n\tpath = job\n'
    (tmp_path / ".gitconfig").write_text(text)
    (tmp_path / "job").write_text("[user]\n\tname = Job\n\temail = job@example.com\n")
    assert gitdir.identity(os.fspath(tmp_path), repository.find(os.fspath(work))) == gitdir.Identity(
        name="Job", email="job@example.com"
    )
    other = repository.find(os.fspath(make_repository(tmp_path / "other")))
    assert gitdir.identity(os.fspath(tmp_path), other).name == "Private"


def test_without_a_repository_there_is_an_identity_and_git_init_works(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    (tmp_path / "work").mkdir()
    view = View(tmp_path / "work", tmp_path / "private", user_home=tmp_path)
    script = "git init -q .; touch a; git add a; git commit -qm first; git log --format=%an"
    assert view.run(script) == "Somebody\n"
    assert os.listdir(view.workspace) == ["a"]
    assert view.run("git log --format=%s") == "first\n"  # it is still there in the box's next command
    assert view.private.units == ()


def test_a_part_of_a_repository_is_shown_without_its_history(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    view = View(work / "dir", tmp_path / "private")
    assert view.private.units == ()
    assert f"a part of the repository {work}" in view.private.notes[0]
    assert all(not mount.source.startswith(f"{work}/.git") for mount in view.private.mounts)


def test_the_host_may_commit_repack_and_prune_meanwhile(view: View) -> None:
    work = view.workspace
    view.run("git checkout -q -b fix; echo new > file; git commit -qam inside")
    commit(work, "more", "more\n")
    git(work, "branch", "-D", "other")
    git(work, "checkout", "-q", "--orphan", "lonely")
    git(work, "commit", "-q", "-m", "alone")
    git(work, "branch", "-D", "main")
    git(work, "reflog", "expire", "--expire=now", "--all")
    git(work, "gc", "-q", "--prune=now")
    assert view.run("git log --format=%s") == "inside\nchange dir/inner\nchange file\n"
    assert view.run("git log --format=%s other") == "change file\n"
    view.run("git fsck --full; git status; git stash list; git commit -q --allow-empty -m again")
    assert [item.branch for item in view.bring_home().arrived] == ["fix"]
    git(work, "fsck", "--full", "--strict")


def test_without_being_kept_the_base_of_a_box_would_be_pruned(tmp_path: Path) -> None:
    """The oracle of the test above."""
    from paddock.workspace import hostrefs

    view = View(make_repository(tmp_path / "work"), tmp_path / "private")
    hostrefs.release(view.unit, view.name)
    git(view.workspace, "branch", "-D", "other")
    git(view.workspace, "checkout", "-q", "--orphan", "lonely")
    git(view.workspace, "commit", "-q", "-m", "alone")
    git(view.workspace, "branch", "-D", "main")
    git(view.workspace, "reflog", "expire", "--expire=now", "--all")
    git(view.workspace, "gc", "-q", "--prune=now")
    assert view.attempt("git log").returncode


def test_two_boxes_on_one_checkout_do_not_see_each_other(view: View, tmp_path: Path) -> None:
    other = View(view.workspace, tmp_path / "private2", "second", user_home=tmp_path)
    view.run("git checkout -q -b mine; git commit -q --allow-empty -m mine")
    assert other.run("git branch --format='%(refname:short)'") == "main\nother\n"
    other.run("git checkout -q -b mine; git commit -q --allow-empty -m theirs")
    assert view.bring_home().arrived[0].ref == "refs/paddock/box/mine"
    assert other.bring_home().arrived[0].ref == "refs/paddock/second/mine"


def test_files_are_not_read_again_where_the_index_says_they_are_unchanged(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    for name in ("file", "dir/inner"):
        os.utime(work / name, (1_000_000_000, 1_000_000_000))  # not in the second in which the index is written
    git(work, "update-index", "--refresh")
    view = View(work, tmp_path / "private")
    index, twin = work / ".git/index", view.private_dir / "gitdir/index"
    assert twin.read_bytes() == index.read_bytes()
    assert twin.stat().st_mtime_ns == index.stat().st_mtime_ns
    assert view.run("git diff-files --name-only") == ""  # it looks at the index alone
    assert view.run("touch file; git diff-files --name-only") == "file\n"


@pytest.mark.parametrize("relative", [False, True])
def test_a_linked_worktree_works_at_its_path(tmp_path: Path, relative: bool) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    main = make_repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", "-b", "side", "../side")
    side = tmp_path / "side"
    if relative:
        (side / ".git").write_text("gitdir: ../main/.git/worktrees/side\n")
    view = View(side, tmp_path / "private", user_home=tmp_path)
    before = snapshot(main), (side / ".git").read_text()
    assert view.run("git status --short; git branch --show-current") == "side\n"
    view.run("echo new > file; git commit -qam inside; git checkout -q -b more; git stash list")
    assert view.attempt("echo x > .git").returncode
    assert view.attempt("mv .git away").returncode
    assert (snapshot(main), (side / ".git").read_text()) == before
    view.run("git checkout -q side")
    assert sorted(item.branch for item in view.bring_home().arrived) == ["more", "side"]
    assert git(main, "log", "-1", "--format=%s", "refs/paddock/box/side") == "inside\n"


def test_a_worktree_inside_the_workspace_works_too(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    work = make_repository(tmp_path / "work")
    git(work, "worktree", "add", "-q", "-b", "side", "trees/side")
    view = View(work, tmp_path / "private", user_home=tmp_path)
    before = snapshot(work / ".git")
    assert view.run("cd trees/side; git branch --show-current; git commit -q --allow-empty -m inside") == "side\n"
    assert view.attempt("mv trees elsewhere").returncode
    assert snapshot(work / ".git") == before
    assert [item.branch for item in view.bring_home().arrived] == ["side"]


def test_submodules_work_and_their_commits_come_home(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    work = with_submodule(tmp_path)
    view = View(work, tmp_path / "private", user_home=tmp_path)
    before = snapshot(work / ".git")
    assert view.run("git submodule status").split()[1:] == ["libs/sub", "(heads/main)"]
    view.run("cd libs/sub; echo new > file; git commit -qam below; cd ../..; git add libs/sub; git commit -qm above")
    assert view.run("git status --short") == ""
    assert snapshot(work / ".git") == before
    assert [unit.repository.workspace for unit in view.private.units] == [f"{work}", f"{work}/libs/sub"]
    assert [item.branch for number in (0, 1) for item in view.bring_home(number).arrived] == ["main", "main"]
    assert git(work / "libs/sub", "log", "-1", "--format=%s", "refs/paddock/box/main") == "below\n"


def test_a_submodule_as_workspace_works_at_its_path(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    work = with_submodule(tmp_path)
    view = View(work / "libs/sub", tmp_path / "private", user_home=tmp_path)
    before = snapshot(work / ".git")
    assert view.run("git status --short; echo n > file; git commit -qam below; git log -1 --format=%s") == "below\n"
    assert snapshot(work / ".git") == before
    assert view.bring_home().arrived[0].branch == "main"


@pytest.mark.parametrize(
    ("words", "script", "said"),
    [
        (["init", "--object-format=sha256"], "git rev-parse HEAD | wc -c", "65\n"),
        (["sparse"], "ls; git status --short", "dir\n"),
        (["sparse-index"], "ls; git status --short", "dir\n"),
        (["split-index"], "git status --short; git ls-files | wc -l", "2\n"),
        (["index v4"], "git status --short; git ls-files | wc -l", "2\n"),
        (["packed"], "git branch --format='%(refname:short)'", "main\nother\n"),
        (["detached"], "git branch --show-current; git log --format=%s", "change file\n"),
        (["unborn"], "git status --short; git branch --show-current", "fresh\n"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_repositories_of_every_form_work(tmp_path: Path, words: list[str], script: str, said: str) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    work = make_repository(tmp_path / "work", *words[1:])
    acts = {
        "sparse": ["sparse-checkout", "set", "--no-cone", "/dir/"],
        "sparse-index": ["sparse-checkout", "set", "--sparse-index", "--no-cone", "/dir/"],
        "split-index": ["update-index", "--split-index"],
        "index v4": ["update-index", "--index-version=4"],
        "packed": ["pack-refs", "--all", "--prune"],
        "detached": ["checkout", "-q", "--detach", "other"],
        "unborn": ["checkout", "-q", "--orphan", "fresh"],
    }
    if words[0] in acts:
        git(work, *acts[words[0]])
    if words[0] == "unborn":
        git(work, "rm", "-rfq", ".")
    view = View(work, tmp_path / "private", user_home=tmp_path)
    before = snapshot(work / ".git")
    assert view.run(script) == said
    view.run("git checkout -q -b fix; mkdir -p dir; echo 1 > dir/new; git add dir/new; git commit -qm inside")
    assert snapshot(work / ".git") == before
    assert view.bring_home().arrived[0].branch == "fix"
    git(work, "fsck")
    assert git(work, "log", "-1", "--format=%s", "refs/paddock/box/fix") == "inside\n"


@pytest.mark.parametrize("words", [["--depth=1"], ["--filter=blob:none"]])
def test_shallow_and_partial_clones_work(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    origin = make_repository(tmp_path / "origin")
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", *words, f"file://{origin}", "work")
    work = tmp_path / "work"
    view = View(work, tmp_path / "private", user_home=tmp_path)
    before = snapshot(work / ".git")
    assert view.run("git status --short; git log -1 --format=%s") == "change dir/inner\n"
    view.run("git checkout -q -b fix; echo 1 > new; git add new; git commit -qm inside")
    assert snapshot(work / ".git") == before
    assert view.bring_home().arrived[0].branch == "fix"


def test_a_repository_of_another_user_works(tmp_path: Path) -> None:
    """As git sees it in a box: files of an owner that is nobody there. git's own switch stands for that."""
    view = View(make_repository(tmp_path / "work"), tmp_path / "private")
    other = "GIT_TEST_ASSUME_DIFFERENT_OWNER=1 git"
    assert view.run(f"{other} log --format=%s other") == "change file\n"
    assert view.attempt(f"GIT_CONFIG_NOSYSTEM=1 {other} log").returncode  # the oracle: without our settings it refuses


def test_borrowed_objects_are_shown_only_where_the_user_showed_them(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--shared", "origin", "work")
    with pytest.raises(UserError, match=f"borrows objects from {origin}") as refused:
        View(tmp_path / "work", tmp_path / "private")
    assert f"`{origin}/.git/objects:ro`" in refused.value.hint
    view = View(tmp_path / "work", tmp_path / "private", shown=(os.fspath(origin),))
    done = view.attempt("git log --format=%s")
    assert (done.stdout, done.stderr) == ("change dir/inner\nchange file\n", "")


SECRET = '[url "https://user:token@example.com/"]\n\tinsteadOf = https://example.com/\n'
HOST = (
    """
[core]
\tautocrlf = input
\tfsmonitor = /bin/evil
\thooksPath = /evil
\tsshCommand = evil
[include]
\tpath = /evil
[remote "origin"]
\turl = https://user:token@example.com/project.git?private_token=token
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "helper"]
\turl = "ext::sh -c evil"
[http]
\textraHeader = "Authorization: token"
[credential]
\thelper = "!evil"
[filter "x"]
\tclean = evil
[alias]
\tx = "!evil"
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""
    + SECRET
)


def test_the_boxs_configuration_has_no_token_and_no_program(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    with open(work / ".git/config", "a", encoding="utf-8") as file:
        file.write(HOST)
    view = View(work, tmp_path / "private")
    text = (view.private_dir / "gitdir/config").read_text()
    assert not [word for word in ("token", "user", "evil", "include", "filter", "alias") if word in text]
    assert view.run("git config core.autocrlf; git config branch.main.merge; git config remote.origin.url") == (
        "input\nrefs/heads/main\nhttps://example.com/project.git\n"
    )


def test_hooks_logs_and_stashes_of_the_host_stay_there(view: View) -> None:
    twin = view.private_dir / "gitdir"
    assert os.listdir(twin / "hooks") == []
    assert not (twin / "logs").exists()
    assert view.run("git stash list; git reflog") == ""


def test_what_was_made_is_known_again_after_a_restart(view: View) -> None:
    assert gitdir.load(os.fspath(view.private_dir), view.found) == view.private
    assert gitdir.load(os.fspath(view.private_dir / "gitdir"), view.found) is None
    json.loads((view.private_dir / "git.json").read_text())
    assert not any(mount.source == os.fspath(view.private_dir) for mount in view.private.mounts)  # not for the box


def test_an_attempt_that_broke_off_is_begun_anew(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private/gitdir").mkdir()
    (tmp_path / "private/gitdir/index").write_text("half")
    assert View(work, tmp_path / "private").run("git status --short") == ""


def test_a_path_with_odd_characters_works(tmp_path: Path) -> None:
    work = make_repository(tmp_path / 'a: "b" \\ \udcff\n\'c')
    view = View(work, tmp_path / "private")
    assert view.run("git log --format=%s other") == "change file\n"


def test_a_box_is_never_given_another_repository_over_its_own(view: View, tmp_path: Path) -> None:
    other = repository.find(os.fspath(make_repository(tmp_path / "other")))
    none = repository.Repository(kind=repository.Kind.NONE, workspace=os.fspath(view.workspace))
    before = snapshot(view.private_dir)
    for found in (other, none):
        with pytest.raises(UserError, match="which is gone"):
            gitdir.make(os.fspath(view.private_dir), found, who=gitdir.Identity())
    assert snapshot(view.private_dir) == before


def test_a_repository_that_came_later_is_taken_up_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    none = View(tmp_path / "work", tmp_path / "private")
    assert gitdir.load(os.fspath(tmp_path / "private"), none.found) == none.private
    make_repository(tmp_path / "work")
    view = View(tmp_path / "work", tmp_path / "private")
    assert view.run("git log -1 --format=%s") == "change dir/inner\n"


def test_a_merge_that_is_not_finished_is_told(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / ".git/MERGE_HEAD").write_text("x")
    assert "not finished" in View(work, tmp_path / "private").private.notes[0]


def test_several_repositories_of_one_box_have_their_objects_apart(view: View, tmp_path: Path) -> None:
    other = repository.find(os.fspath(make_repository(tmp_path / "other")))
    made = gitdir.make(os.fspath(tmp_path / "p2"), other, who=gitdir.Identity(), objects="/run/git/extra")
    targets = [mount.target for mount in (*view.private.mounts, *made.mounts) if mount.target != gitdir.IDENTITY]
    assert len(targets) == len(set(targets))

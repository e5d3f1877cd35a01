"""What a box sees of its workspace besides the files: masks, what is closed to it, a git of its own, a clone."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import WorkspaceMode
from tests.boxes.test_review import on, said, seen
from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

SHARED = (WorkspaceMode.LIVE, WorkspaceMode.REVIEW)
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "safe.directory=*")


def git(project: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=project, check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def project(installation: Installation) -> Path:
    place = installation.workspace / "project"
    for directory in ("conf/deep", ".vscode", "src"):
        (place / directory).mkdir(parents=True)
    for name in (".env", "conf/deep/key.pem", "conf/plain", ".vscode/tasks.json", ".envrc", "src/main.c"):
        (place / name).write_text(f"content of {name}\n")
    return place


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "src")
    git(project, "commit", "-qm", "first")
    return project


# -- masks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", SHARED)
def test_a_masked_path_is_empty_and_an_unmasked_one_is_not(
    paddock: Paddock, project: Path, mode: WorkspaceMode
) -> None:
    look = "cat .env; ls conf/deep"
    assert said(on(paddock, project, mode), look) == "content of .env\nkey.pem\n"
    box = on(paddock, project, mode, masks=(".env", "conf/deep"))
    assert box.info.masks == (".env", "conf/deep")
    assert said(box, look) == ""
    box.stop()
    assert said(box, look) == ""


@pytest.mark.parametrize("mode", SHARED)
@pytest.mark.parametrize(
    "attempt",
    [
        "mv conf elsewhere; cat elsewhere/deep/key.pem",
        "mv conf/deep conf/other; cat conf/other/key.pem",
        "ln conf/deep/key.pem copy; cat copy",
        "rm -r conf/deep; rm conf/deep/key.pem; cat conf/deep/key.pem",
        "umount conf/deep/key.pem; cat conf/deep/key.pem",
        "chmod 644 conf/deep/key.pem; echo mine > conf/deep/key.pem; cp -r conf copies; cat copies/deep/key.pem",
    ],
)
def test_a_mask_cannot_be_gone_around(paddock: Paddock, project: Path, mode: WorkspaceMode, attempt: str) -> None:
    box = on(paddock, project, mode, masks=("conf/deep/key.pem",))
    for _ in range(2):  # and the next start finds what to hide where it was
        told = box.exec(["sh", "-c", attempt]).stdout.decode()
        assert "content of" not in told
        box.stop()
    assert (project / "conf/deep/key.pem").read_text() == "content of conf/deep/key.pem\n"


def test_what_cannot_be_masked_is_refused_before_a_box_exists(paddock: Paddock, project: Path) -> None:
    (project / "link").symlink_to(".env")
    for path in ("missing", "link", "../outside", ".", "", "/etc/passwd", str(project), "a\0b"):
        with pytest.raises(UserError):
            on(paddock, project, masks=(path,))
    assert paddock.ls() == []
    assert on(paddock, project, masks=(str(project / ".env"), ".env")).info.masks == (".env",)


def test_options_of_another_mode_are_refused(paddock: Paddock, project: Path) -> None:
    with pytest.raises(UserError, match="branch"):
        on(paddock, project, branch="fix")
    with pytest.raises(UserError, match="review"):
        on(paddock, project, writable=(".envrc",))


# -- what the host trusts ----------------------------------------------------------------------------------------------

CHANGES = (
    "echo x >> .envrc",
    "echo x >> .vscode/tasks.json",
    "touch .vscode/new",
    "rm .envrc",
    "mv .vscode other",
    "chmod 755 .envrc",
)


def changed(path: Path) -> tuple[int, ...]:
    """All that a change leaves a trace in; reading does not."""
    status = path.stat()
    return status.st_mode, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_host_trusts_is_closed_live_and_open_in_a_review(paddock: Paddock, project: Path, change: str) -> None:
    trusted = (project / ".envrc", project / ".vscode", project / ".vscode/tasks.json")
    before = [changed(path) for path in trusted]
    done = on(paddock, project, WorkspaceMode.LIVE).exec(["sh", "-c", change])
    assert done.exit_code != 0 or (contract.own_kernel() and change.startswith("chmod"))
    assert [changed(path) for path in trusted] == before
    said(on(paddock, project, WorkspaceMode.REVIEW), change)
    subprocess.run(["sh", "-c", change], cwd=project, check=True)  # it is possible


def test_a_path_that_was_opened_is_written(paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, WorkspaceMode.LIVE, writable=(".envrc", ".vscode/tasks.json"))
    said(box, "echo x >> .envrc; echo x >> .vscode/tasks.json")
    assert box.exec(["sh", "-c", "touch .vscode/new"]).exit_code != 0
    assert (project / ".envrc").read_text().endswith("x\n")
    assert (project / ".vscode/tasks.json").read_text().endswith("x\n")


def test_a_directory_without_git_is_left_as_it_was(paddock: Paddock, project: Path) -> None:
    """While a live box runs an empty `.git` holds the place; the last box takes it away, no earlier one."""
    first, second = on(paddock, project, WorkspaceMode.LIVE), on(paddock, project, WorkspaceMode.LIVE)
    hook = "git init -q . && echo 'touch /tmp/ran' > .git/hooks/post-checkout && ls .git/HEAD"
    assert said(first, hook) == ".git/HEAD\n"
    said(second, "true")
    first.stop()
    assert second.exec(["sh", "-c", "touch .git/x && rmdir .git"]).exit_code != 0, "it is still held"
    assert not (project / ".git/x").exists()
    second.stop()
    assert not (project / ".git").exists()


# -- git ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(WorkspaceMode))
def test_git_works_in_every_mode_and_the_hosts_is_not_touched(
    paddock: Paddock, repository: Path, mode: WorkspaceMode
) -> None:
    before = seen(repository / ".git")
    box = on(paddock, repository, mode)
    assert said(box, "git status --porcelain src; git log --format=%s") == "first\n"
    said(box, "git config user.name B; git config user.email b@example.com")
    said(box, "echo more >> src/main.c; echo new > src/new.c; git add src; git commit -qm second; git stash list")
    said(box, "git checkout -q -b other; git worktree add -q /tmp/tree HEAD; git tag mark")
    said(box, "echo 'exit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    assert said(box, "git log --format=%s") == "second\nfirst\n"
    box.stop()
    assert said(box, "git log --format=%s; git branch --show-current") == "second\nfirst\nother\n"
    assert seen(repository / ".git") == before
    assert git(repository, "log", "--format=%s") == "first\n"


def test_the_hosts_configuration_of_git_stays_on_the_host(paddock: Paddock, repository: Path) -> None:
    git(repository, "config", "remote.origin.url", "https://user:token@example.com/x")
    for mode in WorkspaceMode:
        told = said(on(paddock, repository, mode, name=f"one-{mode.value}"), "cat .git/config; git remote -v")
        assert "token" not in told


# -- a clone -----------------------------------------------------------------------------------------------------------


def test_a_clone_is_a_checkout_of_its_own_on_its_branch(paddock: Paddock, repository: Path) -> None:
    before = seen(repository)
    box = on(paddock, repository, WorkspaceMode.CLONE, branch="fix/x")
    assert (box.info.mode, box.info.branch) == (WorkspaceMode.CLONE, "fix/x")
    assert said(box, "pwd; git branch --show-current; ls -A") == f"{repository}\nfix/x\n.git\nsrc\n"
    said(box, "echo mine > src/main.c; rm -rf src/../.vscode; echo made > made")
    box.stop()
    assert said(box, "cat src/main.c made") == "mine\nmade\n"
    assert seen(repository) == before
    assert any("clone" in line or "/git/tree" in line for line in box.plan())


def test_clones_of_one_repository_know_nothing_of_each_other(paddock: Paddock, repository: Path) -> None:
    one, other = (on(paddock, repository, WorkspaceMode.CLONE, branch=f"fix/{name}") for name in ("a", "b"))
    said(one, "echo one > src/one")
    assert said(other, "ls src; git branch --format='%(refname:short)'") == "main.c\nfix/b\nmain\n"


def test_a_directory_without_a_repository_has_no_clone(paddock: Paddock, project: Path) -> None:
    with pytest.raises(UserError, match="no repository"):
        on(paddock, project, WorkspaceMode.CLONE, branch="x").exec(["true"])


def test_files_of_a_live_box_belong_to_the_workspaces_owner(paddock: Paddock, repository: Path) -> None:
    said(on(paddock, repository, WorkspaceMode.LIVE), "echo x > made; mkdir dir; git add made; git status --short")
    owner = (repository.stat().st_uid, repository.stat().st_gid)
    assert {(os.stat(repository / name).st_uid, os.stat(repository / name).st_gid) for name in ("made", "dir")} == {
        owner
    }

"""What a box leaves when a run ends: commits that come home, and word of what the host would obey."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until
from tests.workspace.scenes import git, make_repository, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

COMMIT = """
git config user.name A; git config user.email a@example.com; echo x > made; git add made; git commit -qm 'in the box'
"""


@pytest.fixture
def project(installation: Installation) -> Path:
    return make_repository(installation.workspace / "project")


def home_refs(project: Path) -> dict[str, str]:
    lines = git(project, "for-each-ref", "--format=%(refname) %(subject)", "refs/paddock").splitlines()
    return dict(line.split(" ", 1) for line in lines if "/@base/" not in line)


def inspect(installation: Installation, box: str) -> dict[str, object]:
    found = json.loads(installation.cli("inspect", "--json", box).stdout)[0]
    assert isinstance(found, dict)
    return found


def state(installation: Installation, box: str) -> object:
    return inspect(installation, box)["state"]


def kill(installation: Installation, box: str) -> None:
    """A box ends by itself, and nobody has asked for it."""
    pid = inspect(installation, box)["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    until(lambda: state(installation, box) == "failed", "the box ended")


def untouched(project: Path) -> dict[str, str]:
    """The host's own of a repository: all but objects and our references."""
    found = snapshot(project / ".git")
    return {path: what for path, what in found.items() if not path.startswith(("objects", "refs/paddock", "logs"))}


# -- commits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "branch"),
    [
        (("--name", "box"), "main"),
        (("--review", "--name", "box"), "main"),
        (("--clone", "--branch", "fix/x", "--name", "box"), "fix/x"),
    ],
)
def test_commits_come_home_when_the_command_ends(
    installation: Installation, project: Path, words: tuple[str, ...], branch: str
) -> None:
    before = untouched(project)
    done = installation.cli("run", *words, "--", "sh", "-c", COMMIT, cwd=project)
    assert done.returncode == 0, done.stderr
    assert home_refs(project) == {f"refs/paddock/box/{branch}": "in the box"}, done.stderr
    assert f"refs/paddock/box/{branch}".encode() in done.stderr
    assert untouched(project) == before, "and nothing else of the repository changes"
    log = installation.cli("git", "box", "log", cwd=project).stdout.decode()
    assert log.splitlines()[0].endswith("A: in the box")
    git(project, "fsck", "--strict")


def test_commits_of_a_box_that_is_gone_have_come_home(installation: Installation, project: Path) -> None:
    for word in ("first", "second"):
        assert (
            installation.cli("run", "--", "sh", "-c", COMMIT.replace("in the box", word), cwd=project).returncode == 0
        )
        (project / "made").unlink()
    assert sorted(home_refs(project).values()) == ["first", "second"], "neither takes the other's place"
    assert installation.cli("ls", "-q").stdout == b""


def test_a_run_without_commits_leaves_the_repository_as_it_was(installation: Installation, project: Path) -> None:
    before = snapshot(project / ".git")
    assert installation.cli("run", "--", "git", "log", "--oneline", cwd=project).stdout.count(b"\n") == 2
    until(lambda: not os.listdir(installation.state / "boxes"), "the box is gone")  # a moment after its command
    assert snapshot(project / ".git") == before


def test_fetch_brings_what_was_left_and_a_stopped_box_is_stopped_again(
    installation: Installation, project: Path
) -> None:
    installation.cli("create", "box", ".", cwd=project)
    script = f"echo kept > ~/own; {COMMIT}"
    assert installation.cli("exec", "box", "sh", "-c", script).returncode == 0
    assert home_refs(project) == {}
    kill(installation, "box")
    done = installation.cli("git", "box", "fetch")
    assert done.stdout.decode().split()[1] == "refs/paddock/box/main", done.stderr
    assert state(installation, "box") == "failed"
    assert installation.cli("exec", "box", "cat", "/home/agent/own").stdout == b"kept\n", "its own files stay"
    again = installation.cli("git", "box", "fetch")
    assert (again.returncode, again.stderr) == (0, b"no new commits\n")


def test_a_box_that_lies_about_its_history_brings_nothing_home(installation: Installation, project: Path) -> None:
    forged = "git commit-tree -m x $(git write-tree) > id; cp id .git/refs/heads/evil; rm -rf .git/objects/*"
    before = untouched(project)
    done = installation.cli("run", "--name", "box", "--", "sh", "-c", f"{COMMIT}{forged}; exit 7", cwd=project)
    assert done.returncode == 7, "the command's own outcome stands"
    assert b"did not come home" in done.stderr
    assert (home_refs(project), untouched(project)) == ({}, before)


def test_words_of_commits_reach_no_terminal(installation: Installation, project: Path) -> None:
    script = COMMIT.replace("in the box", r"$(printf '\033[31mred')").replace("'$", '"$').replace(")'", ')"')
    assert installation.cli("run", "--name", "box", "--", "sh", "-c", script, cwd=project).returncode == 0
    shown = installation.cli("git", "box", "log")
    assert (b"red" in shown.stdout, b"\033" in shown.stdout) == (True, False)


# -- what the host trusts ----------------------------------------------------------------------------------------------


def test_what_the_host_would_obey_is_named_at_the_end(installation: Installation, project: Path) -> None:
    (project / ".vscode").mkdir()
    quiet = installation.cli("run", "--", "sh", "-c", "echo x > plain", cwd=project)
    assert quiet.stderr == b"", "nothing new, nothing said"
    script = "mkdir -p deep/.husky; touch deep/.husky/pre-commit .envrc; git init -q nested; git init -q --bare bare"
    done = installation.cli("run", "-q", "--", "sh", "-c", f"{script}; touch .vscode/x; true", cwd=project)
    told = done.stderr.decode()
    for name in (".envrc", "deep/.husky", "nested/.git", "bare"):
        assert f": {name}: " in told, told
    assert ".vscode:" not in told, "it was closed"
    assert os.listdir(project / ".vscode") == []


def test_what_was_told_once_is_not_told_again(installation: Installation, project: Path) -> None:
    words = ("run", "shell", ".", "--", "-c")
    assert b".envrc" in installation.cli(*words, "touch .envrc", cwd=project).stderr
    assert installation.cli(*words, "true", cwd=project).stderr == b""
    assert b".mcp.json" in installation.cli(*words, "touch .mcp.json", cwd=project).stderr


def test_a_new_daemon_tells_what_a_box_left_under_the_old_one(own_installation: Installation) -> None:
    project = make_repository(own_installation.workspace / "project")
    words = ("run", "shell", ".", "--", "-c")
    assert own_installation.cli(*words, "true", cwd=project).stderr == b""
    assert own_installation.cli("exec", "shell-project", "touch", ".envrc").returncode == 0
    own_installation.kill_daemon()
    assert b"box: .envrc: " in own_installation.cli(*words, "true", cwd=project).stderr
    assert own_installation.cli(*words, "true", cwd=project).stderr == b""


def test_files_with_secrets_are_named_at_the_start_and_masked_when_asked(
    installation: Installation, project: Path
) -> None:
    (project / ".env").write_text("TOKEN=1\n")
    done = installation.cli("run", "--", "cat", ".env", cwd=project)
    assert (done.stdout, b"--mask .env" in done.stderr) == (b"TOKEN=1\n", True)
    masked = installation.cli("run", "--mask", ".env", "--", "cat", ".env", cwd=project)
    assert (masked.returncode, masked.stdout, masked.stderr) == (0, b"", b"")
    assert (project / ".env").read_text() == "TOKEN=1\n"


def test_a_trusted_place_is_opened_by_name(installation: Installation, project: Path) -> None:
    (project / ".vscode").mkdir()
    script = "touch .vscode/made"
    assert installation.cli("run", "--", "sh", "-c", script, cwd=project).returncode != 0
    assert installation.cli("run", "--writable", ".vscode", "--", "sh", "-c", script, cwd=project).returncode == 0
    assert os.listdir(project / ".vscode") == ["made"]


# -- the host's git ----------------------------------------------------------------------------------------------------

PLANT = """
payload=$PWD/payload; printf '#!/bin/sh\\ntouch %s\\n' "$1" > $payload; chmod +x $payload
printf '[core]\\n\\tfsmonitor = %s\\n\\thooksPath = %s\\n' $payload $PWD/hooks >> .git/config
mkdir -p hooks evil/objects evil/refs; cp $payload hooks/pre-commit; cp $payload .git/hooks/post-index-change
cp .git/config .git/config.worktree; cp .git/config evil/config
mv .git/hooks .git/hooks2; cp -r .git/hooks2 .git/hooks; true
"""


@pytest.mark.parametrize("words", [(), ("--review", "--name", "box"), ("--clone", "--name", "box")])
def test_the_hosts_git_runs_nothing_that_a_box_planted(
    installation: Installation, project: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    twin, marker, twin_marker = tmp_path / "twin", tmp_path / "ran", tmp_path / "twin-ran"
    shutil.copytree(project, twin, symlinks=True)
    done = installation.cli("run", *words, "--", "sh", "-c", PLANT, "sh", str(marker), cwd=project)
    assert done.returncode == 0, done.stderr
    subprocess.run(["sh", "-c", PLANT, "sh", str(twin_marker)], cwd=twin, check=True)
    if "box" in words:
        installation.cli("git", "box", "fetch")
    for place in (project, twin):
        for act in (["status"], ["add", "-A"], ["commit", "-qm", "more"], ["diff", "HEAD~1"], ["log", "-1"]):
            git(place, *act, check=False)
    assert (marker.exists(), twin_marker.exists()) == (False, True)

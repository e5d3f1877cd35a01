"""A box goes, and nothing that is nowhere else goes with it unless its user says so."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxRequest, ExecSpec, WorkspaceMode
from paddock.workspace import hostrefs
from tests.boxes.test_homecoming import COMMIT, home_refs, inspect, kill, state, untouched
from tests.support import contract
from tests.support.installation import until
from tests.support.terminal import Person
from tests.workspace.scenes import git, make_repository, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
BROKEN = f"{COMMIT}rm -rf .git/objects/??"
MODES = {"live": (), "review": ("--review",), "clone": ("--clone", "--branch", "fix")}


@pytest.fixture
def project(installation: Installation) -> Path:
    return make_repository(installation.workspace / "project")


def make(installation: Installation, project: Path, script: str, *words: str, name: str = "box") -> None:
    """A box in which a script ran whose end nobody has looked at."""
    assert installation.cli("create", *words, name, ".", cwd=project).returncode == 0
    done = installation.cli("exec", name, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    kill(installation, name)


def names(installation: Installation) -> list[str]:
    return installation.cli("ls", "-q").stdout.decode().split()


# -- commits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", [("rm",), ("rm", "-f"), ("prune",), ("reset", "-f")])
def test_commits_come_home_before_a_box_goes(
    installation: Installation, project: Path, mode: str, words: tuple[str, ...]
) -> None:
    make(installation, project, f"{COMMIT}rm made", *MODES[mode])  # nothing of a review is left to apply
    before, branch = untouched(project), "fix" if mode == "clone" else "main"
    assert home_refs(project) == {}
    done = installation.cli(*words, *(["box"] if words[0] == "rm" else []))
    assert (done.returncode, done.stdout) == (0, b"box\n"), done.stderr
    assert home_refs(project) == {f"refs/paddock/box/{branch}": "in the box"}
    assert f"refs/paddock/box/{branch}".encode() in done.stderr
    assert untouched(project) == before
    assert names(installation) == []
    assert git(project, "for-each-ref", hostrefs.BASES) == ""


def test_a_box_whose_commits_cannot_come_home_stays_unless_it_is_forced(
    installation: Installation, project: Path
) -> None:
    make(installation, project, BROKEN)
    for words in (["rm", "box"], ["prune"]):
        done = installation.cli(*words)
        told = done.stderr.decode()
        assert done.returncode == (2 if words[0] == "rm" else 0), told
        assert "commits of main that did not come home" in told
        assert "paddock rm -f box" in told
        assert names(installation) == ["box"]
    forced = installation.cli("rm", "-f", "box")
    assert (forced.returncode, forced.stdout) == (0, b"box\n")
    assert b"lost with the box box: commits of main" in forced.stderr
    assert home_refs(project) == {}


def test_a_later_box_of_the_same_name_does_not_take_the_place_of_what_came_home(
    installation: Installation, project: Path
) -> None:
    for word in ("first", "second"):
        done = installation.cli(
            "run", "--name", "box", "--", "sh", "-c", COMMIT.replace("in the box", word), cwd=project
        )
        assert done.returncode == 0, done.stderr
        log = installation.cli("git", "box", "log").stdout.decode()
        assert log.splitlines()[0].endswith(f"A: {word}")
        assert installation.cli("rm", "-f", "box").returncode == 0
        (project / "made").unlink()
    found = home_refs(project)
    assert (sorted(found.values()), found["refs/paddock/box/main"]) == (["first", "second"], "first")


def test_a_run_that_removes_its_box_keeps_it_if_commits_would_go(installation: Installation, project: Path) -> None:
    done = installation.cli("run", "--rm", "shell", ".", "--", "-c", f"{BROKEN}; exit 3", cwd=project)
    assert (done.returncode, names(installation)) == (3, ["shell-project"])
    assert b"the box stays" in done.stderr
    (project / "made").unlink()
    assert installation.cli("rm", "-f", "shell-project").returncode == 0
    fine = installation.cli("run", "--rm", "shell", ".", "--", "-c", COMMIT, cwd=project)
    assert (fine.returncode, names(installation)) == (0, [])
    assert home_refs(project) == {"refs/paddock/shell-project/main": "in the box"}


def test_a_box_of_one_command_that_outlived_its_daemon_brings_its_commits_home(own_installation: Installation) -> None:
    project = make_repository(own_installation.workspace / "project")
    script = f"echo begun > begun; while [ ! -e go ]; do sleep 0.05; done; {COMMIT}echo over > over"
    caller = own_installation.spawn("run", "--", "sh", "-c", script, cwd=project)
    until((project / "begun").exists, "the command began")
    own_installation.kill_daemon()
    (project / "go").touch()
    until((project / "over").exists, "the command ended")
    caller.communicate(timeout=60)
    own_installation.cli("ls")  # a new daemon
    until(lambda: "in the box" in home_refs(project).values(), "they came home")
    until(lambda: names(own_installation) == [], "the box is gone")
    assert git(project, "for-each-ref", hostrefs.BASES) == ""


# -- reviews -----------------------------------------------------------------------------------------------------------


def test_a_review_that_is_not_applied_stays_unless_it_is_forced(installation: Installation, project: Path) -> None:
    make(installation, project, "echo one > new; echo two >> file", "--review")
    for words in (["rm", "box"], ["prune"]):
        done = installation.cli(*words)
        assert names(installation) == ["box"], done.stderr
    refused = installation.cli("rm", "box")
    assert refused.returncode == 2
    assert b"has 2 changes that are not applied" in refused.stderr
    assert all(word in refused.stderr for word in (b"`paddock diff box`", b"`paddock apply box`", b"`paddock rm -f`"))
    assert installation.cli("apply", "box", "new", "file").returncode == 0
    assert installation.cli("rm", "box").returncode == 0
    assert ((project / "new").read_text(), (project / "file").read_text()) == ("one\n", "one\ntwo\n")


@pytest.mark.parametrize("words", [("rm", "-f", "box"), ("reset", "-f")])
def test_who_forces_is_told_what_of_a_review_was_lost(
    installation: Installation, project: Path, words: tuple[str, ...]
) -> None:
    make(installation, project, "echo one > new", "--review")
    done = installation.cli(*words)
    assert (done.returncode, names(installation)) == (0, [])
    assert b"lost with the box box: 1 change that was not applied" in done.stderr


def test_no_run_removes_its_own_review(installation: Installation, paddock: Paddock, project: Path) -> None:
    for words in (["--", "true"], ["shell", "."]):
        done = installation.cli("run", "--rm", "--review", *words, cwd=project)
        assert (done.returncode, b"--rm would remove" in done.stderr) == (2, True)
    kept = installation.cli("run", "--review", "--", "sh", "-c", "echo one > new", cwd=project)
    assert (kept.returncode, len(names(installation))) == (0, 1), kept.stderr
    assert not (project / "new").exists()
    request = BoxRequest(workspace=str(project), mode=WorkspaceMode.REVIEW)
    with pytest.raises(UserError, match="review"):
        paddock.start_run(request, ExecSpec(argv=("true",)))
    box = paddock.get(names(installation)[0])
    box.stop()
    with pytest.raises(UserError, match="1 change that is not applied"):
        box.remove()


# -- what is told later ------------------------------------------------------------------------------------------------

PLANT = "touch .envrc; git init -q 'a nested'; echo done > done"


@pytest.mark.parametrize("words", [("run", "-d", "--name", "box", "--"), ("exec", "-d", "box")])
def test_the_end_of_a_detached_job_is_looked_at_and_told_to_the_next_who_comes(
    installation: Installation, project: Path, words: tuple[str, ...]
) -> None:
    if words[0] == "exec":
        installation.cli("create", "box", ".", cwd=project)
    done = installation.cli(*words, "sh", "-c", f"{COMMIT}{PLANT}", cwd=project)
    assert (done.returncode, done.stderr) == (0, b"")
    until(lambda: inspect(installation, "box")["untold"] == 3, "the daemon looked")
    assert home_refs(project) == {"refs/paddock/box/main": "in the box"}
    left = inspect(installation, "box")["left"]
    assert isinstance(left, dict)
    assert (left["nested"], [one["ref"] for one in left["arrived"]]) == (["a nested/.git"], ["refs/paddock/box/main"])
    assert b"paddock inspect box" in installation.cli("ls").stderr
    assert b".envrc: " in installation.cli("inspect", "box").stdout
    assert installation.cli("exec", "box", "true").stderr == b"", "a script is not the one to be told"
    with Person(installation, "exec", "box", "true") as someone:
        assert someone.leaves() == 0
        for word in (b": .envrc: ", b"a nested/.git", b"refs/paddock/box/main"):
            assert word in someone.output
    assert inspect(installation, "box")["untold"] == 0
    assert installation.cli("ls").stderr == b""


def test_what_a_detached_job_left_is_known_to_the_next_daemon(own_installation: Installation) -> None:
    project = make_repository(own_installation.workspace / "project")
    script = f"while [ ! -e go ]; do sleep 0.05; done; {COMMIT}{PLANT}"
    own_installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", script, cwd=project)
    own_installation.kill_daemon()
    own_installation.cli("ls")
    (project / "go").touch()
    until(lambda: inspect(own_installation, "box")["untold"] != 0, "the new daemon waited for it")
    own_installation.kill_daemon()
    stop = own_installation.cli("stop", "box")
    told = stop.stderr.decode()
    for word in (": .envrc: ", "a nested/.git", "refs/paddock/box/main"):
        assert word in told


def test_stop_tells_what_the_box_left_and_brings_its_commits_home(installation: Installation, project: Path) -> None:
    installation.cli("create", "box", ".", cwd=project)
    installation.cli("exec", "box", "sh", "-c", f"{COMMIT}{PLANT}")
    done = installation.cli("stop", "box")
    assert (done.returncode, done.stdout) == (0, b"box\n")
    told = done.stderr.decode()
    assert ": .envrc: " in told
    assert "commits of main are in refs/paddock/box/main" in told
    assert state(installation, "box") == "stopped"
    assert installation.cli("stop", "box").stderr == b"", "once"
    run = installation.cli("run", "box", "--", "-c", "true", cwd=project)
    assert run.stderr == b""
    # The command that is printed ends what was found, and nothing else.
    hint = next(line for line in told.splitlines() if line.startswith("hint: "))
    subprocess.run(["sh", "-c", hint.removeprefix("hint: ")], check=True, cwd="/")
    assert os.listdir(project / "a nested") == []


def test_what_a_box_left_that_ended_by_itself_is_told_by_the_next_run(
    installation: Installation, project: Path
) -> None:
    make(installation, project, f"{COMMIT}{PLANT}", name="box")
    until(lambda: inspect(installation, "box")["untold"] != 0, "the daemon looked")
    done = installation.cli("run", "box", "--", "-c", "true", cwd=project)
    told = done.stderr.decode()
    for word in (": .envrc: ", "a nested/.git", "refs/paddock/box/main", "paddock stop box && rm -rf -- "):
        assert word in told


def test_what_the_box_of_one_command_left_is_told_when_the_box_was_ended(
    installation: Installation, project: Path
) -> None:
    script = f"{PLANT}; touch planted; sleep 1000"
    with installation.spawn("run", "--name", "one", "--rm", "--", "sh", "-c", script, cwd=project) as run:
        until((project / "planted").exists, "it is planted")
        assert installation.cli("stop", "--grace", "0", "one").returncode == 0
        told = run.communicate()[1].decode()
    assert (run.returncode, "error: the box 'one' ended" in told) == (137, True)
    for word in (": .envrc: ", "a nested/.git"):
        assert word in told


def test_the_sdk_has_it_as_data(paddock: Paddock, project: Path) -> None:
    box = paddock.create("box", workspace=str(project))
    job = box.detach(["sh", "-c", PLANT])
    until(lambda: box.refresh().untold, "the daemon looked")
    assert [item.path for item in box.pending().trusted] == [".envrc"]
    assert [box.left().nested, box.pending().nested, box.left().nested] == [("a nested/.git",), (), ()]
    assert job
    box.exec(["sh", "-c", COMMIT])
    assert [one.branch for one in box.stop().arrived] == ["main"]
    info = box.remove()
    assert (info.box, info.lost, info.kept) == ("box", (), "")


# -- the host's git ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_box_goes_on_after_the_host_rewrote_its_history_and_pruned(
    installation: Installation, project: Path, mode: str
) -> None:
    assert installation.cli("create", *MODES[mode], "box", ".", cwd=project).returncode == 0
    installation.cli("exec", "box", "true")
    git(project, "commit", "-q", "--amend", "-m", "another")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "-q", "--prune=now")
    done = installation.cli("exec", "box", "sh", "-c", f"{COMMIT}git fsck --full > /tmp/fsck && git log --format=%s")
    assert done.stdout.decode().splitlines()[:2] == ["in the box", "change dir/inner"], done.stderr
    installation.cli("stop", "box")
    assert "in the box" in home_refs(project).values()
    git(project, "fsck", "--full", "--strict")
    installation.cli("rm", "-f", "box")
    assert git(project, "for-each-ref", hostrefs.BASES) == ""


def test_a_box_that_commits_nothing_leaves_the_repository_as_it_was(installation: Installation, project: Path) -> None:
    before = snapshot(project / ".git")
    installation.cli("create", "box", ".", cwd=project)
    installation.cli("exec", "box", "git", "status")
    during = {path for path, _ in set(snapshot(project / ".git").items()) ^ set(before.items())}
    assert all(path.startswith("refs/paddock") for path in during)
    assert during, "while it is there, what it started from is kept"
    installation.cli("rm", "-f", "box")
    assert snapshot(project / ".git") == before

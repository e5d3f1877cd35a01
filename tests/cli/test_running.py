"""run and create: boxes that are gone afterwards, boxes that stay, and what a person is warned about."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from paddock.model import Enforcement
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def names(installation: Installation) -> list[str]:
    return installation.cli("ls", "-q").stdout.decode().split()


# -- run -- COMMAND ----------------------------------------------------------------------------------------------------


def test_a_named_run_leaves_a_box_that_the_next_one_finds(installation: Installation) -> None:
    assert installation.cli("run", "--name", "mine", "--", "sh", "-c", "echo kept > ~/file; exit 4").returncode == 4
    assert names(installation) == ["mine"]
    assert installation.cli("run", "--name", "mine", "--", "cat", "/home/agent/file").stdout == b"kept\n"
    assert names(installation) == ["mine"]


def test_environment_of_a_later_run_is_for_that_command_alone(installation: Installation) -> None:
    show = ("--", "sh", "-c", "echo [$A] [$B]")
    assert installation.cli("run", "--name", "mine", "-e", "A=box", *show).stdout == b"[box] []\n"
    assert installation.cli("run", "--name", "mine", "-e", "B=run", *show).stdout == b"[box] [run]\n"
    assert installation.cli("run", "--name", "mine", *show).stdout == b"[box] []\n"


@pytest.mark.parametrize("options", [[], ["--name", "mine"]])
def test_rm_removes_the_box_of_a_command(installation: Installation, options: list[str]) -> None:
    assert installation.cli("run", "--rm", *options, "--", "sh", "-c", "exit 6").returncode == 6
    until(lambda: names(installation) == [], "the box is gone")


def test_a_detached_run_prints_its_job_and_goes_on(installation: Installation) -> None:
    os.mkfifo(installation.workspace / "fifo")
    job = installation.cli("run", "-d", "--", "sh", "-c", "read x < fifo; echo got $x").stdout.decode().strip()
    assert job.startswith("shell-workspace/")
    assert b"running" in installation.cli("logs", "--list", "shell-workspace").stdout
    (installation.workspace / "fifo").write_text("it\n")
    assert installation.cli("logs", "-f", job).stdout == b"got it\n"


def test_a_workdir_is_where_the_command_starts(installation: Installation) -> None:
    (installation.workspace / "sub").mkdir()
    assert installation.cli("run", "-w", "sub", "--", "pwd").stdout.decode() == f"{installation.workspace}/sub\n"
    assert installation.cli("run", "-w", "/tmp", "--", "pwd").stdout == b"/tmp\n"
    installation.cli("create", "box", "-w", "sub")
    assert installation.cli("exec", "box", "pwd").stdout.decode() == f"{installation.workspace}/sub\n"
    for words in (["--name", "box", "-w", "sub", "--", "pwd"], ["-w", "sub", "box", "--", "-c", "pwd"]):
        assert installation.cli("run", *words).stdout.decode() == f"{installation.workspace}/sub\n"


def test_mounts_and_extras_are_seen_as_asked(installation: Installation) -> None:
    other = installation.home.parent / "other"
    other.mkdir(exist_ok=True)
    (other / "file").write_text("other\n")
    script = f"cat {other}/file /mnt/o/file; touch {other}/new; touch /mnt/o/new"
    done = installation.cli("run", "-v", f"{other}:/mnt/o:ro", "--", "sh", "-c", "cat /mnt/o/file; touch /mnt/o/new")
    assert (done.stdout, b"Read-only" in done.stderr) == (b"other\n", True)
    done = installation.cli("run", "-v", f"{other}:/mnt/o", "shell", ".", f"{other}:ro", "--", "-c", script, stdin=b"")
    assert done.stdout == b"other\nother\n"
    assert (other / "new").exists(), "the oracle: the writable mount was written"
    assert done.stderr.count(b"Read-only") == 1
    (other / "new").unlink()


def test_a_shell_without_a_terminal_reads_its_commands(installation: Installation) -> None:
    done = installation.cli("run", "shell", ".", stdin=b"echo from a pipe; exit 5\n")
    assert (done.stdout, done.returncode) == (b"from a pipe\n", 5)
    assert names(installation) == ["shell-workspace"]


def test_the_same_directory_finds_the_same_box(installation: Installation) -> None:
    installation.cli("run", "shell", ".", "--", "-c", "echo 1 > ~/file")
    assert installation.cli("run", "shell", "--", "-c", "cat ~/file").stdout == b"1\n"
    assert installation.cli("run", "shell-workspace", "--", "-c", "cat ~/file").stdout == b"1\n"
    assert names(installation) == ["shell-workspace"]


def test_environment_given_to_a_box_stays_with_it(installation: Installation) -> None:
    installation.cli("create", "box")
    installation.cli("run", "-e", "A=stays", "box", "--", "-c", "true")
    assert installation.cli("exec", "box", "sh", "-c", "echo $A").stdout == b"stays\n"


def test_a_detached_agent_is_a_job(installation: Installation) -> None:
    job = installation.cli("run", "-d", "shell", ".", "--", "-c", "echo done").stdout.decode().strip()
    until(lambda: installation.cli("logs", job).stdout == b"done\n", "the agent's output is journalled")


def test_rm_removes_the_box_of_an_agent(installation: Installation) -> None:
    assert installation.cli("run", "--rm", "shell", ".", "--", "-c", "exit 8").returncode == 8
    assert names(installation) == []


# -- create ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["shell"], "shell-workspace"),
        (["shell", "."], "shell-workspace"),
        (["shell", "--name", "mine"], "mine"),
        (["mine"], "mine"),
        (["mine", ".", "--agent", "shell"], "mine"),
        (["mine", "--name", "mine"], "mine"),
    ],
)
def test_a_new_box_is_named_and_not_started(installation: Installation, words: list[str], name: str) -> None:
    done = installation.cli("create", *words)
    assert (done.stdout.decode(), done.stderr) == (f"{name}\n", b"")
    info = json.loads(installation.cli("inspect", "--json", name).stdout)[0]
    assert (info["state"], info["agent"], info["workspace"]) == ("created", "shell", str(installation.workspace))


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_limit_that_does_not_hold_here_is_said_wherever_it_is_asked_for(installation: Installation) -> None:
    created = installation.cli("create", "box", "--cpus", "1")
    with installation.sdk() as sdk:
        report = next(report for report in sdk.get("box").info.limits if report.name == "cpus")
    expected = f"warning: {report.note}\n".encode() if report.enforcement is Enforcement.NONE else b""
    assert created.stderr == expected
    assert installation.cli("run", "--cpus", "1", "--", "true").stderr == expected
    installation.cli("rm", "box")
    assert installation.cli("run", "--cpus", "1", "shell", ".", "--", "-c", "true").stderr == expected
    assert installation.cli("run", "--", "true").stderr == b""


def test_limits_reach_the_box(installation: Installation) -> None:
    installation.cli("create", "box", "--cpus", "1", "-m", "512m", "--pids", "77", "--disk", "1g", "--timeout", "1h")
    shown = installation.cli("inspect", "box").stdout.decode()
    for line in ("memory       512MiB, ", "pids         77, ", "disk         1GiB, ", "wall time    1h, "):
        assert line in shown

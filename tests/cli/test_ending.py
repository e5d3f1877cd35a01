"""stop, rm, reset, prune: what is named goes, what is not stays, and a person is asked before files do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import ending
from tests.support import contract
from tests.support.terminal import CTRL_C, Person

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def names(installation: Installation) -> list[str]:
    return installation.cli("ls", "-q").stdout.decode().split()


@pytest.fixture
def three(installation: Installation) -> Installation:
    """One box of each kind: never started, stopped, running."""
    for name in ("made", "stopped", "running"):
        installation.cli("create", name)
    for name in ("stopped", "running"):
        installation.cli("exec", name, "true")
    installation.cli("stop", "stopped")
    return installation


def test_stop_ends_commands_and_keeps_files(installation: Installation) -> None:
    installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", "echo kept > ~/file; sleep 600")
    assert installation.cli("stop", "box").stdout == b"box\n"
    assert b"stopped" in installation.cli("ls").stdout
    assert installation.cli("exec", "box", "cat", "/home/agent/file").stdout == b"kept\n"


def test_a_command_has_a_grace_to_end_in(installation: Installation) -> None:
    script = "trap 'echo ended well > done; exit' TERM; echo ready > ready; while :; do sleep 0.05; done"
    installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", script)
    installation.shell("while [ ! -e ready ]; do sleep 0.02; done")
    installation.cli("stop", "--grace", "10s", "box")
    assert (installation.workspace / "done").read_text() == "ended well\n"


def test_rm_removes_what_is_named(three: Installation) -> None:
    assert three.cli("rm", "made", "stopped").stdout == b"made\nstopped\n"
    assert names(three) == ["running"]
    assert three.cli("rm", "-f", "running").stdout == b"running\n"
    assert names(three) == []


@pytest.mark.parametrize("verb", [["stop"], ["rm"], ["rm", "-f"]])
def test_one_unknown_name_and_nothing_ends(three: Installation, verb: list[str]) -> None:
    done = three.cli(*verb, "made", "running", "unknown")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"running" in three.cli("ls").stdout
    assert names(three) == ["made", "stopped", "running"]


def test_prune_removes_stopped_boxes_for_a_script(three: Installation) -> None:
    assert three.cli("prune").stdout == b"stopped\n"
    assert names(three) == ["made", "running"]
    assert three.cli("prune").stdout == b""


def test_reset_removes_nothing_unless_it_is_meant(three: Installation) -> None:
    done = three.cli("reset")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: not confirmed\nhint: `paddock reset -f` does not ask\n"
    assert three.cli("reset", "-f").stdout == b"made\nstopped\nrunning\n"
    assert names(three) == []
    assert three.cli("reset").returncode == 0, "there is nothing to ask about"


@pytest.mark.parametrize(("verb", "left"), [("reset", []), ("prune", ["made", "running"])])
@pytest.mark.parametrize("answer", ["", "n", "what?"])
def test_a_person_is_asked_first(three: Installation, verb: str, left: list[str], answer: str) -> None:
    with Person(three, verb) as someone:
        asked = someone.sees(b"? [y/N] ")
        assert b"stopped" in asked
        someone.enter(answer)
        assert someone.leaves() == 2
    assert len(names(three)) == 3
    with Person(three, verb) as someone:
        someone.sees(b"? [y/N] ")
        someone.enter("y")
        assert someone.leaves() == 0
    assert names(three) == left


@pytest.mark.parametrize("verb", ["reset", "prune"])
def test_who_interrupts_the_question_has_said_no(three: Installation, verb: str) -> None:
    with Person(three, verb) as someone:
        someone.sees(b"? [y/N] ")
        someone.type(CTRL_C)
        assert someone.leaves() == 130
        assert b"Traceback" not in someone.output
    assert len(names(three)) == 3


def test_who_forces_is_not_asked(three: Installation) -> None:
    for verb in ("prune", "reset"):
        with Person(three, verb, "-f") as someone:
            assert someone.leaves() == 0
            assert b"?" not in someone.output
    assert names(three) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "the box n0 and its files"),
        (2, "2 boxes (n0, n1) and their files"),
        (9, "9 boxes (n0, n1, n2, n3, n4, n5, n6, n7 and 1 more) and their files"),
    ],
)
def test_the_question_names_the_boxes(count: int, text: str) -> None:
    assert ending._boxes([f"n{number}" for number in range(count)]) == text

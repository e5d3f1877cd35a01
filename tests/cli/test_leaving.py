"""What is said of a workspace before and after a command; tests/boxes/test_homecoming.py has it with real boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from paddock.cli import leaving
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from paddock.reports import ArrivalInfo, LeaveReport, TrustedInfo

if TYPE_CHECKING:
    import pytest

    from paddock.client import Command


class _Box:
    name = "box"
    mode = WorkspaceMode.REVIEW
    workspace = "/work/a b"
    ephemeral = False


class _Command:
    box = _Box()

    def __init__(self, report: LeaveReport | None) -> None:
        self._report = report

    def left(self) -> LeaveReport:
        if self._report is None:
            raise Unavailable("the daemon is gone")
        return self._report


def told(capsys: pytest.CaptureFixture[str], report: LeaveReport | None, *, quiet: bool = False) -> str:
    leaving.say_left(cast("Command", _Command(report)), quiet=quiet)
    return capsys.readouterr().err


def test_notes_are_said_unless_nobody_wants_them(capsys: pytest.CaptureFixture[str]) -> None:
    leaving.say_notes(["one", "two"])
    leaving.say_notes(["three"], quiet=True)
    assert capsys.readouterr().err == "warning: one\nwarning: two\n"


def test_dangers_are_said_to_everybody_and_the_rest_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    report = LeaveReport(
        trusted=(TrustedInfo(path="a\033[31m/.envrc", why="direnv runs it"),),
        nested=("inner/.git",),
        complete=False,
        arrived=(ArrivalInfo(ref="refs/paddock/box/main", branch="main", oid="a" * 40, old=""),),
        problems=("a problem",),
    )
    quiet = told(capsys, report, quiet=True)
    assert (quiet.count("warning: "), quiet.count("\n")) == (4, 5)
    assert "hint: paddock stop box && rm -rf -- '/work/a b/inner/.git'\n" in quiet
    assert "\033" not in quiet
    said = told(capsys, report)
    assert said.startswith(quiet)
    assert "paddock: commits of main are in refs/paddock/box/main (aaaaaaaaaaaa)" in said
    assert "`paddock diff box`" in said


def test_a_great_many_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(f"{number}/.git" for number in range(100))
    assert "and 80 more" in told(capsys, LeaveReport(nested=many), quiet=True)


def test_a_daemon_that_is_gone_does_not_change_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert "it is not known" in told(capsys, None)


def test_what_lies_at_the_top_is_not_pushed_out_of_sight(capsys: pytest.CaptureFixture[str]) -> None:
    decoys = tuple(TrustedInfo(path=f"!/{number}/.envrc", why="direnv runs it") for number in range(50))
    report = LeaveReport(
        trusted=(*decoys, TrustedInfo(path=".vscode", why="runs")),
        nested=(*(f"!/{n}/.git" for n in range(50)), "x/.git"),
    )
    said = told(capsys, report)
    assert ".vscode: runs" in said
    assert "x/.git: git obeys it" in said
    assert "and 62 more" in said

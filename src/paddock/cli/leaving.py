"""What a person is told of a workspace: first what the box sees of it, then what it left there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.cli.main import warn
from paddock.errors import PaddockError
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.client import Command
    from paddock.reports import LeaveReport

_SHOWN = 20


def say_notes(notes: Iterable[str], *, quiet: bool = False) -> None:
    for note in notes:
        if not quiet:
            warn(note)


def say_left(command: Command, *, quiet: bool = False) -> None:
    """After a command; the command's own outcome stands, whatever happens here."""
    try:
        report = command.left()
    except PaddockError as error:
        warn(f"it is not known what the box left in the workspace: {error.message}")
        return
    _say_dangers(report)
    for problem in report.problems:
        warn(problem)
    if quiet:
        return
    for one in report.arrived:
        _say(f"commits of {text.neutralise(one.branch)} are in {one.ref} ({one.oid[:12]})")
    if command.box.mode is WorkspaceMode.REVIEW:
        name = command.box.name
        _say(f"`paddock diff {name}` shows what it changed, `paddock apply {name}` brings it home")


def _say_dangers(report: LeaveReport) -> None:
    """Also to those who want no words of ours: it is about what their next command on the host would run."""
    # What lies near the top is obeyed first, and is not pushed out of sight by a thousand others further down.
    trusted = sorted(report.trusted, key=lambda item: item.path.count("/"))
    for item in trusted[:_SHOWN]:
        warn(f"new or changed by the box: {item.path}: {item.why}")
    for path in sorted(report.nested, key=lambda path: path.count("/"))[:_SHOWN]:
        warn(f"a git repository of the box's making: {path}: git obeys it when you work there; look before you do")
    more = len(report.trusted[_SHOWN:]) + len(report.nested[_SHOWN:])
    if more:
        warn(f"and {more} more of these")
    if not report.complete:
        warn("the workspace is too large to look at all of it: the box may have left more that the host trusts")


def _say(line: str) -> None:
    print(f"paddock: {line}", file=sys.stderr)

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

    from paddock.client import Box, Command
    from paddock.reports import LeaveReport, RemovalInfo

_SHOWN = 20


def say_notes(notes: Iterable[str], *, quiet: bool = False) -> None:
    for note in notes:
        if not quiet:
            warn(note)


def say_left(command: Command, *, quiet: bool = False, hint: bool = True) -> None:
    """After a command; the command's own outcome stands, whatever happens here."""
    try:
        report = command.left()
    except PaddockError as error:
        warn(f"it is not known what the box left in the workspace: {error.message}")
        return
    box = command.box
    say(report, box.workspace, quiet=quiet, stop="" if box.ephemeral else box.name)
    if box.mode is WorkspaceMode.REVIEW and hint and not quiet:
        _say(f"`paddock diff {box.name}` shows what it changed, `paddock apply {box.name}` brings it home")


def say_earlier(box: Box, *, quiet: bool = False) -> None:
    """Before a command: what was found while nobody waited."""
    say(box.left(look=False), box.info.workspace, quiet=quiet, stop=box.name)


def say(report: LeaveReport, workspace: str, *, quiet: bool = False, stop: str = "") -> None:
    """`stop`: the box that may still run, and change what is told of here."""
    _say_dangers(report, workspace, stop)
    for problem in report.problems:
        warn(problem)
    for one in () if quiet else report.arrived:
        _say(f"commits of {text.neutralise(one.branch)} are in {one.ref} ({one.oid[:12]})")


def say_removed(info: RemovalInfo, workspace: str) -> None:
    """Of a box that is gone, or that is not because it holds something."""
    if info.kept:
        warn(f"{info.kept}; `paddock rm -f {info.box}` drops that and the box")
        return
    say(info.left, workspace)
    if info.state == "kept":
        _say(f"the agent's state is kept for its next box of {text.neutralise(workspace)}")
    elif info.state == "none":
        warn(f"the box {info.box} had no state of its agent to keep")
    for what in info.lost:
        warn(f"lost with the box {info.box}: {what}")


def _say_dangers(report: LeaveReport, workspace: str, stop: str) -> None:
    """Also to those who want no words of ours: it is about what their next command on the host would run."""
    # What lies near the top is obeyed first, and is not pushed out of sight by a thousand others further down.
    trusted = sorted(report.trusted, key=lambda item: item.path.count("/"))
    for item in trusted[:_SHOWN]:
        warn(f"new or changed by the box: {item.path}: {item.why}")
    for path in sorted(report.nested, key=lambda path: path.count("/"))[:_SHOWN]:
        warn(f"a git repository of the box's making: {path}: git obeys it when you work there; look before you do")
    if report.nested:
        _say_remedies(report.nested[:_SHOWN], workspace, stop)
    more = len(report.trusted[_SHOWN:]) + len(report.nested[_SHOWN:])
    if more:
        warn(f"and {more} more of these")
    if not report.complete:
        warn("the workspace is too large to look at all of it: the box may have left more that the host trusts")


def _say_remedies(paths: tuple[str, ...], workspace: str, stop: str) -> None:
    """Commands to copy. A box that runs could put a link where the path leads through, so it is stopped first."""
    from paddock.workspace import nested

    first = f"paddock stop {stop} && " if stop else ""
    for path in paths:
        print(f"hint: {first}{nested.remedy(workspace, path)}", file=sys.stderr)
        first = ""


def _say(line: str) -> None:
    print(f"paddock: {line}", file=sys.stderr)

"""stop, rm, reset, prune."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.cli import leaving
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.errors import PaddockError, UserError
from paddock.model import BoxState, WorkspaceMode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from paddock.client import Box
    from paddock.model import BoxInfo
    from paddock.reports import RemovalInfo


def stop(options: argparse.Namespace) -> int:
    grace_s = text.parse_duration(options.grace)
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]  # all names are known before anything ends
        for box in boxes:
            report = box.stop(grace_s)
            print(box.name)
            leaving.say(report, box.info.workspace)
    return 0


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]
        running = [box.name for box in boxes if box.info.state is BoxState.RUNNING]
        if running and not options.force:  # before any is removed
            hint = f"`paddock stop {running[0]}` first, or `paddock rm -f {running[0]}`"
            raise UserError(f"the box {running[0]!r} is running", hint=hint, code="running")
        dropped = {box.name: _dropped(box, force=options.force) for box in boxes}
        for box in boxes:
            info = box.remove(force=options.force, keep_state=options.keep_state)
            print(box.name)
            leaving.say_removed(info, box.info.workspace)
            _say_dropped(box.name, dropped[box.name])
    return 0


def _dropped(box: Box, *, force: bool) -> str:
    """What of a review goes with its box, if that is what its user wants; else UserError, before any is removed."""
    from paddock.client.answers import check_applied

    try:
        changes = box.unapplied()
    except PaddockError as error:
        if not force:
            raise
        return f"its changes, if there were any: {error.message}"
    if not force:
        check_applied(box.name, changes)
    if changes == 1:
        return "1 change that was not applied"
    return f"{changes} changes that were not applied" if changes else ""


def _say_dropped(name: str, what: str) -> None:
    if what:
        warn(f"lost with the box {name}: {what}")


def reset(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        infos = paddock.ls()
        names = [info.name for info in infos]
        if names and not options.force and not _confirmed(f"remove {_boxes(names)}, running or not"):
            raise UserError("not confirmed", hint="`paddock reset -f` does not ask", code="not-confirmed")
        reviews = [info.name for info in infos if info.mode is WorkspaceMode.REVIEW]
        dropped = {name: _dropped(paddock.named(name), force=True) for name in reviews}
        _say_all(paddock.reset(), infos)
        for name, what in dropped.items():
            _say_dropped(name, what)
    return 0


def prune(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        infos = [info for info in paddock.ls() if info.state in {BoxState.STOPPED, BoxState.FAILED}]
        # A script means what it says; a person may not know that a stopped box has files of its own.
        ask = bool(infos) and sys.stdin.isatty() and not options.force
        if ask and not _confirmed(f"remove {_boxes([info.name for info in infos])}"):
            raise UserError("not confirmed", hint="`paddock rm` removes boxes one by one", code="not-confirmed")
        _say_all(paddock.prune(), infos)
    return 0


def _say_all(removed: Iterable[RemovalInfo], infos: Iterable[BoxInfo]) -> None:
    places = {info.name: info.workspace for info in infos}
    for info in removed:
        if not info.kept:
            print(info.box)
        leaving.say_removed(info, places.get(info.box, ""))


def _boxes(names: list[str]) -> str:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"the box {shown} and its files" if len(names) == 1 else f"{len(names)} boxes ({shown}) and their files"


def _confirmed(what: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}

"""stop, rm, reset, prune."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.model import BoxState

if TYPE_CHECKING:
    import argparse


def stop(options: argparse.Namespace) -> int:
    grace_s = text.parse_duration(options.grace)
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]  # all names are known before anything ends
        for box in boxes:
            box.stop(grace_s)
            print(box.name)
    return 0


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]
        running = [box.name for box in boxes if box.info.state is BoxState.RUNNING]
        if running and not options.force:  # before any is removed
            hint = f"`paddock stop {running[0]}` first, or `paddock rm -f {running[0]}`"
            raise UserError(f"the box {running[0]!r} is running", hint=hint, code="running")
        for box in boxes:
            box.remove(force=options.force)
            print(box.name)
    return 0


def reset(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        names = [info.name for info in paddock.ls()]
        if names and not options.force and not _confirmed(f"remove {_boxes(names)}, running or not"):
            raise UserError("not confirmed", hint="`paddock reset -f` does not ask", code="not-confirmed")
        for name in paddock.reset():
            print(name)
    return 0


def prune(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        names = [info.name for info in paddock.ls() if info.state in {BoxState.STOPPED, BoxState.FAILED}]
        # A script means what it says; a person may not know that a stopped box has files of its own.
        ask = bool(names) and sys.stdin.isatty() and not options.force
        if ask and not _confirmed(f"remove {_boxes(names)}"):
            raise UserError("not confirmed", hint="`paddock rm` removes boxes one by one", code="not-confirmed")
        for name in paddock.prune():
            print(name)
    return 0


def _boxes(names: list[str]) -> str:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"the box {shown} and its files" if len(names) == 1 else f"{len(names)} boxes ({shown}) and their files"


def _confirmed(what: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}

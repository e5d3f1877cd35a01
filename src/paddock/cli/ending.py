"""stop, rm, reset, prune."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.client import Paddock
from paddock.errors import UserError

if TYPE_CHECKING:
    import argparse


def stop(options: argparse.Namespace) -> int:
    grace_s = text.parse_duration(options.grace) if options.grace != "0" else 0.0
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]  # all names are known before anything ends
        for box in boxes:
            box.stop(grace_s)
            print(box.name)
    return 0


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]
        for box in boxes:
            box.remove(force=options.force)
            print(box.name)
    return 0


def reset(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        count = len(paddock.ls())
        if not options.force and not _confirmed(count):
            raise UserError("not confirmed", hint="`paddock reset -f` does not ask", code="not-confirmed")
        for name in paddock.reset():
            print(name)
    return 0


def _confirmed(count: int) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"remove all {count} boxes and their files? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def prune(_options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        for name in paddock.prune():
            print(name)
    return 0

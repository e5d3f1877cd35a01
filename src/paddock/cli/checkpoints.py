"""checkpoint."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import amounts
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.client.answers import expect_list, expect_object
from paddock.reports import CheckpointInfo, DifferenceInfo

if TYPE_CHECKING:
    import argparse

_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_PATH_CHARS = 4096


def create(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = paddock.call(
            "checkpoint_create",
            box=options.box,
            name=options.name,
            stop=options.stop,
            with_workspace=options.with_workspace,
        )
    info = codec.from_wire(CheckpointInfo, answer)
    print(json.dumps(answer, indent=2) if options.json else f"{info.box}@{info.name}")
    return 0


def ls(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = expect_list(paddock.call("checkpoint_ls", box=options.box))
    found = [codec.from_wire(CheckpointInfo, item) for item in answer]
    if options.json:
        print(json.dumps(answer, indent=2))
    elif found:
        rows = [
            (
                f"{info.box}@{info.name}",
                info.created_at[:19].replace("T", " "),
                size(info.disk_bytes, is_whole=info.is_measured),
                " ".join(info.parts),
            )
            for info in found
        ]
        print(text.table(rows, ("CHECKPOINT", "MADE (UTC)", "DISK", "HOLDS")))
    else:
        print("no checkpoints; `paddock checkpoint create BOX` makes one", file=sys.stderr)
    return 0


def restore(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = paddock.call("checkpoint_restore", checkpoint=options.checkpoint, stop=options.stop)
    print(json.dumps(answer, indent=2) if options.json else options.checkpoint)
    return 0


def workspace(options: argparse.Namespace) -> int:
    place = os.path.abspath(options.directory)
    with Paddock() as paddock:
        answer = paddock.call("checkpoint_workspace", checkpoint=options.checkpoint, place=place)
    print(json.dumps(answer, indent=2) if options.json else place)
    return 0


def fork(options: argparse.Namespace) -> int:
    count = amounts.count(options.count, "-n")
    with Paddock() as paddock:
        made = expect_list(paddock.call("checkpoint_fork", source=options.source, count=count, stop=options.stop))
    if options.json:
        print(json.dumps(made, indent=2))
    else:
        print("\n".join(str(expect_object(item)["name"]) for item in made))
    return 0


def diff(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = expect_object(paddock.call("checkpoint_diff", one=options.one, other=options.other))
    found = [codec.from_wire(DifferenceInfo, item) for item in expect_list(answer["differences"])]
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        for item in found:  # TRUST: paths are an agent's words, neutralised
            print(f"{_MARKS.get(item.kind, '?')} {text.neutralise(item.path, _PATH_CHARS)}")
    if not answer["is_whole"]:
        warn("there are more differences than are shown")
    return 1 if found else 0


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        gone = [paddock.call("checkpoint_rm", checkpoint=word) for word in options.checkpoints]
    print(json.dumps(gone, indent=2) if options.json else "\n".join(options.checkpoints))
    return 0


def prune(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        gone = expect_list(paddock.call("checkpoint_prune"))
    if options.json:
        print(json.dumps(gone, indent=2))
    else:
        for layer in gone:
            print(layer)
    return 0


def size(disk_bytes: int, *, is_whole: bool) -> str:
    return text.size(disk_bytes) if is_whole else f"{text.size(disk_bytes)} or more"

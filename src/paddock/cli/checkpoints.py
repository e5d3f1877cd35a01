"""checkpoint, df."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import amounts
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.client.answers import expect_list, expect_object
from paddock.reports import CheckpointInfo, DifferenceInfo, LayerUsage

if TYPE_CHECKING:
    import argparse

_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_PATH_CHARS = 4096


def create(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = paddock.call("checkpoint_create", box=options.box, name=options.name, stop=options.stop)
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
            (f"{info.box}@{info.name}", info.created_at[:19].replace("T", " "), " ".join(info.parts)) for info in found
        ]
        print(text.table(rows, ("CHECKPOINT", "MADE (UTC)", "HOLDS")))
    else:
        print("no checkpoints; `paddock checkpoint create BOX` makes one", file=sys.stderr)
    return 0


def restore(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        paddock.call("checkpoint_restore", checkpoint=options.checkpoint, stop=options.stop)
    print(options.checkpoint)
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
        for word in options.checkpoints:
            paddock.call("checkpoint_rm", checkpoint=word)
            print(word)
    return 0


def prune(_options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        for layer in expect_list(paddock.call("checkpoint_prune")):
            print(layer)
    return 0


def df(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = expect_list(paddock.call("df"))
    if options.json:
        print(json.dumps(answer, indent=2))
        return 0
    found = [codec.from_wire(LayerUsage, item) for item in answer]
    rows = [(info.id[:24], _size(info), "used" if info.is_used else "unused") for info in found]
    print(text.table(rows, ("LAYER", "DISK", "STATE")))
    for word, is_used in (("used", True), ("unused", False)):
        print(f"{word}: {text.size(sum(info.disk_bytes for info in found if info.is_used is is_used))}")
    return 0


def _size(info: LayerUsage) -> str:
    return text.size(info.disk_bytes) if info.is_whole else f"{text.size(info.disk_bytes)} or more"

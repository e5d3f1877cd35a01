"""df."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli.checkpoints import size
from paddock.client import Paddock
from paddock.client.answers import expect_list, expect_object
from paddock.reports import SpaceInfo

if TYPE_CHECKING:
    import argparse


def df(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        answer = expect_object(paddock.call("df"))
    if options.json:
        print(json.dumps(answer, indent=2))
        return 0
    found = [codec.from_wire(SpaceInfo, item) for item in expect_list(answer["items"])]
    rows = [
        (info.kind, info.name, size(info.own_bytes, is_whole=info.is_whole), text.size(info.shared_bytes))
        for info in found
        if info.kind != "layer" or not info.is_used
    ]
    if rows:
        print(text.table(rows, ("KIND", "NAME", "OWN", "SHARED")))
    layers = [info for info in found if info.kind == "layer"]
    unused = sum(info.own_bytes for info in layers if not info.is_used)
    total = size(sum(info.own_bytes for info in layers), is_whole=all(info.is_whole for info in layers))
    print(f"layers: {len(layers)}, {total}; unused, which `prune` removes: {text.size(unused)}")
    quota = answer["total_bytes"]
    print(f"free on the disk: {text.size(int(str(answer['free_bytes'])))}", end="")
    print(f"; quota of all layers: {text.size(int(str(quota)))}" if quota else "")
    return 0

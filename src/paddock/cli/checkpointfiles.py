"""checkpoint export, checkpoint import."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paddock import codec
from paddock.cli import placing
from paddock.cli.ticking import Ticking
from paddock.client import Paddock

if TYPE_CHECKING:
    import argparse


def export(options: argparse.Namespace) -> int:
    name, _, wanted = options.checkpoint.partition("@")
    with Paddock() as paddock, placing.outgoing(paddock, options.output) as (place, directory):
        digest = paddock.named(name).export(wanted, place, directory=directory)
    done = {"checkpoint": options.checkpoint, "file": place, "digest": digest}
    print(json.dumps(done, indent=2) if options.json else place)
    return 0


def import_(options: argparse.Namespace) -> int:
    path = placing.incoming(options.file)
    with Paddock() as paddock, Ticking(f"{paddock.paths.layers}/staging"):
        box = paddock.import_checkpoint(path, options.name, workspace=options.workspace or ".")
    print(json.dumps(codec.to_wire(box.info), indent=2) if options.json else box.name)
    return 0

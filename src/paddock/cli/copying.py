"""cp: files and directories into and out of a box."""

from __future__ import annotations

import posixpath
import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.cli.boxfiles import BoxFiles
from paddock.client import Paddock
from paddock.errors import UserError

if TYPE_CHECKING:
    import argparse

    from paddock.model import BoxInfo

_BOX_HOME = "/home/agent"
_SHOWN_MAX = 20


class Skipped:
    """What is not copied, and why; a hostile tree does not fill the screen."""

    def __init__(self) -> None:
        self.count = 0

    def __repr__(self) -> str:
        return f"<Skipped {self.count}>"

    def add(self, path: str, why: str) -> None:
        self.count += 1
        if self.count <= _SHOWN_MAX:
            print(f"warning: not copied: {text.neutralise(path)}: {text.neutralise(why)}", file=sys.stderr)

    def finish(self) -> int:
        """cp's exit code."""
        if self.count > _SHOWN_MAX:
            print(f"warning: not copied: {self.count - _SHOWN_MAX} more", file=sys.stderr)
        return 1 if self.count else 0


def cp(options: argparse.Namespace) -> int:
    source_box, source = side(options.source)
    target_box, target = side(options.destination)
    if bool(source_box) == bool(target_box):
        which = "both sides are boxes" if source_box else "neither side is a box"
        hint = "`paddock cp BOX:/tmp/x .` or `paddock cp x BOX:/tmp/`"
        raise UserError(f"{which}: {options.source!r} and {options.destination!r}", hint=hint, code="usage")
    skipped = Skipped()
    with Paddock() as paddock:
        box = paddock.get(source_box or target_box)
        trees = written(paddock)
        with BoxFiles(lambda: paddock.channel(box.name)) as files:
            if source_box:
                from paddock.cli.fetching import fetch

                fetch(files, _inside(box.info, source), target, trees, skipped)
            else:
                from paddock.cli.sending import send

                send(files, source, (_inside(box.info, target), target.endswith("/")), trees, skipped)
    return skipped.finish()


def side(word: str) -> tuple[str, str]:
    """BOX:PATH, or no box and a host path. A word with a slash before its colon is a host path."""
    name, colon, path = word.partition(":")
    if colon and name and "/" not in name:
        return name, path or "."
    return "", word


def written(paddock: Paddock) -> list[str]:
    """Trees of the host in which boxes can put links."""
    found = [(info.workspace, *(mount.source for mount in info.mounts if not mount.read_only)) for info in paddock.ls()]
    return [tree for trees in found for tree in trees]


def _inside(info: BoxInfo, path: str) -> str:
    """A path of the box: relative to where its commands start, ~ is its home."""
    if path == "~" or path.startswith("~/"):
        path = _BOX_HOME + path[1:]
    return posixpath.normpath(posixpath.join(info.workdir, path))

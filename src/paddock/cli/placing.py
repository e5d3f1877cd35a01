"""Where a file that goes out of Paddock is to be, whatever boxes do to the directories they share with their user."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from paddock.cli import hostpaths
from paddock.cli.copying import written
from paddock.cli.ticking import Ticking
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Paddock


@contextlib.contextmanager
def outgoing(paddock: Paddock, output: str) -> Iterator[tuple[str, int]]:
    """Where a file is to be, and its directory, opened so that a box cannot lead us elsewhere meanwhile."""
    trees = [tree for info in paddock.ls() for tree in written(info)]
    place = hostpaths.resolve(output, trees)
    folder = os.path.dirname(place)
    try:
        directory = hostpaths.open_resolved(folder, trees, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        hint = "give a directory that exists"
        raise UserError(f"cannot open {folder}: {error.strerror}", hint=hint, code="no-file") from error
    try:
        with Ticking(place):
            yield place, directory
    finally:
        os.close(directory)

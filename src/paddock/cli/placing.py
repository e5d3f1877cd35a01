"""Files that come in, and where one that goes out is to be, whatever boxes do to what they share with their user."""

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


def incoming(file: str) -> str:
    """A file to read, or `-`: what comes in on standard input, by a name that the daemon can open."""
    if file != "-":
        return file
    if os.isatty(0):
        raise UserError("standard input is a terminal", hint="give a file, or a pipe", code="usage")
    return f"/proc/{os.getpid()}/fd/0"


@contextlib.contextmanager
def outgoing(paddock: Paddock, output: str) -> Iterator[tuple[str, int]]:
    """Where a file is to be, and its directory, opened so that a box cannot lead us elsewhere meanwhile."""
    trees = written(paddock)
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

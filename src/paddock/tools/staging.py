"""Room for one install: a directory that a box may have, outside our state, and one beside the store's versions.

The second says where the first is, and is written before it: an install that is killed at any moment leaves nothing
that the next one does not find.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

from paddock import fs

if TYPE_CHECKING:
    from typing import Self

_NOTE: Final = "scratch"
_SCRATCH: Final = re.compile(r"/(?:[^/\0]+/)*paddock-install-[0-9a-f]{8}-[0-9a-f]{16}\Z")
_PLACES: Final = ("/var/tmp", "/tmp")  # the first is on disk everywhere: an agent has some hundred MiB


class Staging:
    """As a context manager it is there inside, and nothing of it afterwards."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        place = next((place for place in _PLACES if os.access(place, os.W_OK | os.X_OK)), "/tmp")
        self.scratch = f"{os.path.realpath(place)}/{scratch_prefix(os.path.dirname(directory))}{os.urandom(8).hex()}"
        self.new = f"{directory}/new"  # what becomes the version

    def __repr__(self) -> str:
        return f"<Staging {self.directory}>"

    def __enter__(self) -> Self:
        os.mkdir(self.directory, 0o700)
        try:
            fs.write_atomic(f"{self.directory}/{_NOTE}", self.scratch.encode())
            os.mkdir(self.scratch, 0o700)
            os.mkdir(self.new, 0o700)
        except BaseException:
            remove(self.directory)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.directory)


def scratch_prefix(store: str) -> str:
    """How the names of a store's own begin: other installations work in the same place."""
    return f"paddock-install-{hashlib.sha256(os.fsencode(store)).hexdigest()[:8]}-"


def remove(directory: str) -> None:
    """What is left of an install, with the directory that a box had."""
    try:
        with open(f"{directory}/{_NOTE}", encoding="ascii") as file:
            scratch = file.read(4096)
    except (OSError, UnicodeDecodeError):
        scratch = ""  # it was killed before there was one
    if _SCRATCH.match(scratch):
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(scratch).st_uid == os.getuid():
                fs.remove_tree(scratch)
    fs.remove_tree(directory)

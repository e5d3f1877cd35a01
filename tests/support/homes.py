"""Directories of the caller's own home, made where there are none, for tests that run side by side."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = ".made-by-a-test"


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """The home; tests beside this one use the same places, and the last of them takes away what the first has made."""
    home = Path(paths.home_directory())
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield home
    finally:
        os.close(fd)


def make(directory: Path) -> None:
    if not directory.is_dir():
        make(directory.parent)
        directory.mkdir(mode=0o700)
        (directory / _MARK).touch()


def unmake(directory: Path) -> None:
    if directory.is_dir() and [path.name for path in directory.iterdir()] == [_MARK]:
        (directory / _MARK).unlink()
        directory.rmdir()
        unmake(directory.parent)

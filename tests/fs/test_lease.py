"""A file that somebody has open is known to be in use, however it is held."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock.fs.lease import is_in_use

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable
    from io import BufferedReader, BufferedWriter
    from pathlib import Path


def read(path: str) -> BufferedReader:
    return open(path, "rb")


def written(path: str) -> BufferedWriter:
    return open(path, "ab")


def mapped(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 1)


@pytest.mark.parametrize("hold", [read, written, mapped])
def test_a_file_is_in_use_while_somebody_has_it(
    tmp_path: Path, hold: Callable[[str], contextlib.AbstractContextManager[object]]
) -> None:
    path = tmp_path / "file"
    path.write_text("x", "utf-8")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert not is_in_use(fd)
        with hold(os.fspath(path)):
            assert is_in_use(fd)
        assert not is_in_use(fd)
    finally:
        os.close(fd)


def test_where_there_are_no_leases_nothing_is_known() -> None:
    fd = os.open("/proc/self/maps", os.O_RDONLY)
    try:
        assert not is_in_use(fd)
    finally:
        os.close(fd)


def test_who_opens_it_at_that_moment_ends_nobody(tmp_path: Path) -> None:
    """The kernel's word that a lease is wanted back must not be the end of us."""
    path = tmp_path / "file"
    path.write_text("x", "utf-8")
    code = "import sys\nwhile True:\n    open(sys.argv[1], 'a').close()\n"
    other = subprocess.Popen([sys.executable, "-c", code, path])
    try:
        assert signal.getsignal(signal.SIGIO) is signal.SIG_DFL, "the oracle: it would end us"
        answers: set[bool] = set()
        while len(answers) < 2:
            fd = os.open(path, os.O_RDONLY)
            answers.add(is_in_use(fd))
            os.close(fd)
    finally:
        other.kill()
        other.wait()

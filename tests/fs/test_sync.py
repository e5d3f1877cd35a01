from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.fs import sync

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("count", [0, 1, 16, 17, 40])
def test_few_and_many_files_are_synced(tmp_path: Path, count: int) -> None:
    fds = [os.open(tmp_path / str(number), os.O_CREAT | os.O_WRONLY) for number in range(count)]
    sync.sync_all(fds)
    for fd in fds:
        os.close(fd)


def test_a_directory_is_synced_by_its_path(tmp_path: Path) -> None:
    sync.sync_directory(os.fspath(tmp_path))
    with pytest.raises(FileNotFoundError):
        sync.sync_directory(f"{tmp_path}/missing")


def test_whole_file_systems_are_synced(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    sync.sync_file_systems([fd, fd])
    os.close(fd)


@pytest.mark.parametrize("count", [1, 40])
def test_what_cannot_be_synced_is_an_error(count: int) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync.sync_all([10_000] * count)

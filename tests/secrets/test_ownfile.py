"""Only a plain file that nobody else can read or write is one's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.secrets.ownfile import read_own

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own"
    file.write_bytes(b"value")
    file.chmod(0o600)
    return file


def test_ones_own_file_is_read(own: Path) -> None:
    assert read_own(str(own), 5) == b"value"


def test_a_missing_one_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_own(str(tmp_path / "none"), 5)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_can_open_is_refused(own: Path, mode: int) -> None:
    own.chmod(mode)
    with pytest.raises(Unavailable, match="others may read or write it"):
        read_own(str(own), 5)


def test_a_link_is_refused(own: Path, tmp_path: Path) -> None:
    (tmp_path / "soft").symlink_to(own)
    with pytest.raises(Unavailable):
        read_own(str(tmp_path / "soft"), 5)
    os.link(own, tmp_path / "hard")
    with pytest.raises(Unavailable, match="one name"):
        read_own(str(own), 5)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "directory").mkdir(mode=0o700)
    for name in ("fifo", "directory"):
        with pytest.raises(Unavailable, match="not a plain file"):
            read_own(str(tmp_path / name), 5)


def test_a_file_over_the_bound_is_refused(own: Path) -> None:
    with pytest.raises(Unavailable, match="too large"):
        read_own(str(own), 4)


@pytest.mark.privileged
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(own: Path) -> None:
    os.chown(own, 12345, 12345)
    with pytest.raises(Unavailable, match="belongs to uid 12345"):
        read_own(str(own), 5)

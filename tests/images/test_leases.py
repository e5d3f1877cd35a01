"""A lease lasts as long as its process: ARC-13, FLT-09."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock.images import leases
from paddock.images.leases import Lease, leased
from tests.support.forks import forked

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    for name in ("leases", "staging"):
        (tmp_path / name).mkdir()
    return os.fspath(tmp_path / "leases"), os.fspath(tmp_path / "staging")


@pytest.fixture
def trash(tmp_path: Path) -> str:
    (tmp_path / "trash").mkdir()
    return os.fspath(tmp_path / "trash")


def test_what_is_leased_is_listed_until_the_lease_is_over(places: tuple[str, str], trash: str) -> None:
    lease, other = Lease(*places), Lease(*places)
    lease.add("sha256:a")
    lease.add("sha256:b")
    other.add("sha256:b")
    assert leased(*places, trash) == {"sha256:a", "sha256:b"}
    assert "held" in repr(lease)
    lease.close()
    lease.close()
    assert leased(*places, trash) == {"sha256:b"}
    assert not os.path.exists(lease.staging)
    assert os.path.isdir(other.staging)
    other.close()
    assert [os.listdir(place) for place in places] == [[], []]


def test_the_lease_of_a_killed_process_is_over_and_what_it_staged_is_trash(places: tuple[str, str], trash: str) -> None:
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        lease = Lease(*places)
        lease.add("sha256:a")
        os.mkdir(f"{lease.staging}/half", 0o000)
        os.write(writer, b"ready")
        signal.pause()
    os.read(reader, 5)
    try:
        assert leased(*places, trash) == {"sha256:a"}
        assert len(os.listdir(places[1])) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert leased(*places, trash) == set()
    assert [os.listdir(place) for place in places] == [[], []]
    assert len(os.listdir(trash)) == 1


def test_one_that_is_closed_while_somebody_looks_is_over(
    places: tuple[str, str], trash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is opened, and between that and its removal."""
    early, late, held = (Lease(*places) for _ in range(3))
    held.add("sha256:a")
    read = leases._read

    def look(path: str) -> set[str] | None:
        if path.endswith(early.name):
            early.close()
            return read(path)
        layers = read(path)
        if path.endswith(late.name):
            late.close()
            return None
        return layers

    monkeypatch.setattr(leases, "_read", look)
    assert leased(*places, trash) == {"sha256:a"}
    assert os.listdir(places[0]) == [held.name] == os.listdir(places[1])
    held.close()


def test_a_disk_that_takes_half_a_name_spoils_no_other(
    places: tuple[str, str], trash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    room = 4

    def little(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(fd, data[: min(room, 3)])
        room -= taken
        return taken

    lease = Lease(*places)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", little)
        with pytest.raises(OSError, match="No space"):
            lease.add("sha256:lost")
        room = 100
        lease.add("sha256:whole")
    assert leased(*places, trash) == {"sha256:whole"}
    lease.close()

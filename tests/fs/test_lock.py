"""One holder at a time, whoever dies however: FLT-09, FLT-10."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.fs import FileLock
from tests.fs.children import allow_descriptors, in_child, in_mount_namespace, mount, open_descriptors

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_holder_is_turned_away_and_told_who_holds(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    with FileLock(path) as first:
        second = FileLock(path, wait_s=0)
        assert first.held
        assert not first.try_acquire()
        assert not second.try_acquire()
        with pytest.raises(Unavailable, match=f"locked by process {os.getpid()}"), second:
            pass
    assert second.try_acquire()
    second.release()


def test_the_file_stays_and_belongs_to_us_alone(tmp_path: Path) -> None:
    before = open_descriptors()
    with FileLock(f"{tmp_path}/lock"):
        pass
    assert os.stat(tmp_path / "lock").st_mode & 0o7777 == 0o600
    assert open_descriptors() == before


def test_a_lock_dies_with_its_holder_and_not_before(tmp_path: Path) -> None:
    lock = FileLock(f"{tmp_path}/lock", wait_s=10)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        FileLock(lock.path).try_acquire()
        os.write(writer, b".")
        signal.pause()
        os._exit(0)
    os.read(reader, 1)
    assert not lock.try_acquire()
    assert lock.holder() == f"process {pid}"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert lock.try_acquire()
    lock.release()
    os.close(reader)
    os.close(writer)


def test_waiting_gets_the_lock_when_it_comes_free(tmp_path: Path) -> None:
    lock = FileLock(f"{tmp_path}/lock")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = FileLock(lock.path)
        held.try_acquire()
        os.write(writer, b".")
        time.sleep(0.2)  # the time in which the parent waits
        os._exit(0)
    os.read(reader, 1)
    with lock:
        assert lock.holder() == f"process {os.getpid()}"
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)


def test_a_program_started_while_we_hold_it_does_not_keep_it(tmp_path: Path) -> None:
    with FileLock(f"{tmp_path}/lock") as lock:
        assert lock._fd is not None
        assert not os.get_inheritable(lock._fd)


@pytest.mark.parametrize("text", [b"", b"rubbish\n", b"-1", "٣".encode(), b"9" * 5000])
def test_rubbish_in_the_file_decides_nothing(tmp_path: Path, text: bytes) -> None:
    lock = FileLock(f"{tmp_path}/lock")
    (tmp_path / "lock").write_bytes(text)
    assert lock.holder().endswith("process") or lock.holder() == "process " + "9" * 32
    assert lock.try_acquire()
    lock.release()


def test_a_full_disk_does_not_unlock(tmp_path: Path) -> None:
    def act() -> None:
        mount("tmpfs", str(tmp_path), "tmpfs", options="size=4k,mode=0700")
        (tmp_path / "lock").touch()
        (tmp_path / "ballast").write_bytes(b"x" * 4096)
        with FileLock(f"{tmp_path}/lock"):
            other = FileLock(f"{tmp_path}/lock")
            assert not other.try_acquire()
            assert other.holder() == "another process"

    in_mount_namespace(act)


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "lock").symlink_to("precious")
    with pytest.raises(Unavailable, match="cannot lock"):
        FileLock(f"{tmp_path}/lock").try_acquire()
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_repr_tells_path_and_state(tmp_path: Path) -> None:
    lock = FileLock(f"{tmp_path}/lock")
    assert repr(lock) == f"<FileLock {tmp_path}/lock free>"
    with lock:
        assert repr(lock) == f"<FileLock {tmp_path}/lock held>"


def test_no_room_for_a_descriptor_is_unavailable(tmp_path: Path) -> None:
    def act() -> None:
        allow_descriptors(0)
        with pytest.raises(Unavailable, match="Too many open files"):
            FileLock(f"{tmp_path}/lock").try_acquire()

    in_child(act)

"""Finding this user's daemon, and starting it when there is none."""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paddock import fs, paths
from paddock.client import starter
from paddock.client.transport import Transport
from paddock.errors import Unavailable
from tests.support import answering
from tests.support.answering import Answering
from tests.support.installation import alive, until


@pytest.fixture
def where(tmp_path: Path) -> paths.Paths:
    found = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    os.makedirs(found.run, mode=0o700)
    return found


def test_a_daemon_that_serves_is_found(tmp_path: Path) -> None:
    with Answering(tmp_path, answering.echo) as daemon:
        found = starter.find(daemon.where)
        assert found is not None
        found.close()


def test_no_socket_is_no_daemon(where: paths.Paths) -> None:
    assert starter.find(where) is None


def test_no_directory_is_no_daemon(tmp_path: Path) -> None:
    assert starter.find(paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path / "new")})) is None


def test_a_socket_that_a_dead_daemon_left_is_no_daemon(where: paths.Paths) -> None:
    fs.bind_unix(where.run, paths.SOCKET).close()
    assert starter.find(where) is None


def test_a_file_in_its_place_is_an_error_and_stays(where: paths.Paths) -> None:
    place = Path(where.run, paths.SOCKET)
    place.write_text("mine")
    with pytest.raises(Unavailable):
        starter.find(where)
    assert place.read_text() == "mine"


def test_a_link_to_another_socket_is_not_followed(where: paths.Paths, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(other))
        listener.listen()
        Path(where.run, paths.SOCKET).symlink_to(other)
        with pytest.raises(Unavailable):
            starter.find(where)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.privileged
def test_a_socket_of_somebody_else_is_told_nothing(where: paths.Paths) -> None:
    with fs.bind_unix(where.run, paths.SOCKET) as listener:
        listener.listen()
        os.chown(f"{where.run}/{paths.SOCKET}", 61234, 61234)
        with pytest.raises(Unavailable) as caught:
            starter.find(where)
        assert caught.value.code == "foreign-socket"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_daemon_is_told_its_home_whatever_our_own_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paddock(home=...) must not start a daemon on the user's own state."""
    monkeypatch.setenv("PADDOCK_HOME", "/elsewhere")
    monkeypatch.setenv("SECRET", "x")
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    environ = starter._environment(where)
    assert paths.Paths(environ).state == where.state
    assert "SECRET" not in environ
    monkeypatch.delenv("PADDOCK_HOME")
    assert paths.Paths(starter._environment(paths.Paths())).state == paths.Paths().state


def _said(message: str) -> bool:
    read, write = os.pipe()
    os.write(write, message.encode())
    os.close(write)
    try:
        return starter._await(read, time.monotonic() + 10)
    finally:
        os.close(read)


@pytest.mark.parametrize("message", ['{"ready": true}\n', '{"already": true}\n'])
def test_a_daemon_that_is_ready_is_believed(message: str) -> None:
    assert _said(message)


@pytest.mark.parametrize("message", ["", '{"ready"'])
def test_a_daemon_that_died_at_its_start_is_not_believed(message: str) -> None:
    assert not _said(message)


def test_a_daemon_that_could_not_start_says_why() -> None:
    message = json.dumps({"error": Unavailable("the disk is full", hint="h").to_wire()}) + "\n"
    with pytest.raises(Unavailable, match="the disk is full"):
        _said(message)


def test_daemons_that_end_without_a_word_are_not_started_for_ever(
    where: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starter, "_BOOT", "open(1, 'wb', closefd=False).write(b'started ')")
    with pytest.raises(Unavailable, match="the daemon did not start") as caught:
        starter.connect(where)
    assert where.daemon_log in caught.value.hint
    assert Path(where.daemon_log).read_text().split() == ["started"] * starter._SILENT_MAX


# -- real daemons ------------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_many_clients_at_once_start_one_daemon(tmp_path: Path) -> None:
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})

    def status(_: int) -> int:
        transport = Transport(where)
        result, _fds = transport.call("status", {})
        transport.close()
        assert isinstance(result, dict)
        return int(result["pid"])

    with ThreadPoolExecutor(6) as pool:
        pids = set(pool.map(status, range(6)))
    assert len(pids) == 1
    _stop(where, pids.pop())


@pytest.mark.box
def test_a_database_that_is_damaged_is_named_by_the_client(tmp_path: Path) -> None:
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    fs.make_private_dir(where.state)
    Path(where.database).write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(Unavailable) as caught:
        starter.connect(where)
    assert caught.value.code == "corrupt-store"
    assert "doctor --rebuild" in caught.value.hint


@pytest.mark.box
def test_a_daemon_that_holds_the_lock_and_does_not_serve_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starter, "DAEMON_START_TIMEOUT_S", 1.0)
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    fs.make_private_dir(where.state)
    lock = fs.FileLock(where.daemon_lock)
    assert lock.try_acquire()
    try:
        with pytest.raises(Unavailable) as caught:
            starter.connect(where)
    finally:
        lock.release()
    assert caught.value.code == "daemon-stuck"
    assert str(os.getpid()) in caught.value.hint


def _stop(where: paths.Paths, pid: int) -> None:
    transport = Transport(where)
    transport.call("shutdown", {})
    transport.close()
    until(lambda: not alive(pid), "the daemon ended")

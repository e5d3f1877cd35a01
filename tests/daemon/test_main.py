"""The daemon's life: one at a time, told to end or left without its state, and quiet about it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs, limits, paths
from paddock.daemon import main
from tests.support.installation import IS_ROOT, alive, children, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.installation import Installation


def test_installations_and_users_have_tags_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    first = main.tag(f"{tmp_path}/a")
    assert (main.tag(f"{tmp_path}/a"), main.tag(f"{tmp_path}/b") == first) == (first, False)
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "b").rename(tmp_path / "a")
    again = main.tag(f"{tmp_path}/a")
    assert again != first, "another directory under the same name"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert main.tag(f"{tmp_path}/a") != again


@pytest.fixture
def _loggers() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers, root.level = handlers, level


def _begin_log(path: Path) -> None:
    logging.getLogger().handlers = []  # pytest adds its own after the fixtures
    main._log_to(os.fspath(path))


@pytest.mark.usefixtures("_loggers")
@pytest.mark.parametrize(("size", "kept"), [(limits.DAEMON_LOG_BYTES, False), (limits.DAEMON_LOG_BYTES + 1, True)])
def test_a_log_that_has_grown_large_is_set_aside(tmp_path: Path, size: int, kept: bool) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(size)
    _begin_log(path)
    logging.getLogger("x").info("a line")
    assert (tmp_path / "log.1").exists() == kept
    assert path.read_bytes().endswith(b"a line\n")


@pytest.mark.usefixtures("_loggers")
def test_a_log_is_bounded_while_the_daemon_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box that connected in a loop to a server that had enough of it wrote gigabytes."""
    monkeypatch.setattr(limits, "DAEMON_LOG_BYTES", 10_000)
    _begin_log(tmp_path / "log")
    for number in range(1000):
        logging.getLogger("x").info("%0100d", number)
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.1"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 * limits.DAEMON_LOG_BYTES
    assert f"{999:0100d}" in (tmp_path / "log").read_text(), "the oracle: the newest is there"


def test_a_socket_is_ours_only_by_its_identity(tmp_path: Path) -> None:
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    os.makedirs(where.run)
    place = Path(where.run, paths.SOCKET)
    assert not main._is_ours(where, 1)
    place.touch()
    identity = place.lstat().st_ino
    assert main._is_ours(where, identity)
    other = place.with_name("other")
    other.touch()
    other.rename(place)
    assert not main._is_ours(where, identity)


class Blind:
    """A runtime whose watch breaks."""

    def __init__(self) -> None:
        self.lifetimes = self.watch = self

    async def run(self) -> None:
        msg = "nothing is seen"
        raise ValueError(msg)


def test_a_daemon_whose_watch_broke_ends_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would hold no limit any more; the next one does again."""
    where = paths.Paths({"PADDOCK_HOME": os.fspath(tmp_path)})
    os.makedirs(where.run)
    listener = fs.bind_unix(where.run, paths.SOCKET)
    listener.listen()

    async def serve() -> None:
        await asyncio.wait_for(main._serve(where, Blind(), listener, asyncio.Event()), 10)  # type: ignore[arg-type]

    asyncio.run(serve())
    assert "watch failed" in caplog.text
    assert "nothing is seen" in caplog.text
    assert not os.path.lexists(f"{where.run}/{paths.SOCKET}")


def test_a_starter_that_is_gone_does_not_stop_the_daemon() -> None:
    read, write = os.pipe()
    os.close(read)
    main._tell(write, {"ready": True})
    main._tell(write, {"ready": True})


# -- real daemons ------------------------------------------------------------------------------------------------------

box = pytest.mark.box


def _started(installation: Installation) -> int:
    installation.cli("ls")
    return installation.daemon_pid()


@box
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_is_told_to_end_takes_its_socket_and_launcher_with_it(
    own_installation: Installation, number: int
) -> None:
    pid = _started(own_installation)
    until(lambda: children(pid), "its launcher is up")
    (launcher,) = children(pid)
    os.kill(pid, number)
    until(lambda: not alive(pid) and not alive(launcher), "both ended")
    assert not (own_installation.state / "run/daemon.sock").exists()
    assert _started(own_installation) != pid, "the next command starts another"


@box
def test_a_second_daemon_ends_at_once(own_installation: Installation) -> None:
    pid = _started(own_installation)
    read, write = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", "from paddock.daemon.main import main; main()", str(write)],
        pass_fds=[write],
        env={**own_installation.environ, "PYTHONPATH": "src"},
        cwd=Path(main.__file__).parents[3],
        timeout=30,
        check=True,
    )
    os.close(write)
    with open(read, encoding="ascii") as pipe:
        assert pipe.read() == '{"already": true}\n'
    assert done.returncode == 0
    assert own_installation.daemon_pid() == pid


@box
def test_the_state_of_a_daemon_is_private(own_installation: Installation) -> None:
    _started(own_installation)
    state = own_installation.state
    assert [path for path in (state, *state.iterdir()) if path.stat().st_mode & 0o077] == []


@box
def test_a_daemon_whose_state_was_deleted_ends(own_installation: Installation) -> None:
    pid = _started(own_installation)
    (own_installation.state / "run/daemon.sock").unlink()
    until(lambda: not alive(pid), "it ended", main._LOOK_S + 10)


@box
def test_the_callers_environment_and_descriptors_do_not_reach_the_daemon(own_installation: Installation) -> None:
    own_installation.environ["SECRET"] = "s3cret"
    pid = _started(own_installation)
    until(lambda: children(pid), "its launcher is up")
    (launcher,) = children(pid)
    assert b"s3cret" not in Path(f"/proc/{launcher}/environ").read_bytes()
    if not IS_ROOT:  # it is closed to everybody else: the next test
        return
    assert b"s3cret" not in Path(f"/proc/{pid}/environ").read_bytes()
    kinds = {os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
    state = os.fspath(own_installation.state)
    assert [kind for kind in kinds if not kind.startswith((state, "socket", "anon_inode", "/dev/null", "pipe"))] == []


@box
@pytest.mark.skipif(IS_ROOT, reason="root reads every memory")
def test_no_other_process_of_the_user_looks_into_daemon_and_gateway(own_installation: Installation) -> None:
    pid = _started(own_installation)
    until(lambda: children(pid), "its launcher is up")
    (launcher,) = children(pid)
    until(lambda: own_installation.status()["gateway_pid"], "the gateway is up")
    for name in ("environ", "maps", "mem"):
        os.close(os.open(f"/proc/{launcher}/{name}", os.O_RDONLY))  # which never holds a value
        for closed in (pid, own_installation.status()["gateway_pid"]):
            with pytest.raises(PermissionError):
                os.open(f"/proc/{closed}/{name}", os.O_RDONLY)
    with pytest.raises(PermissionError):
        os.listdir(f"/proc/{pid}/fd")
    assert own_installation.status()["open_files"]


@box
def test_a_daemon_says_what_it_takes_up(own_installation: Installation) -> None:
    _started(own_installation)
    status = own_installation.status()
    files, memory = status["open_files"], status["memory_bytes"]
    assert isinstance(files, int)
    assert isinstance(memory, int)
    assert 5 < files < 100
    assert 1 << 20 < memory < 200 << 20

"""A damaged database, a full disk, no descriptors, no processes: a clear error, nothing half-made, and a way back."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import cgroup_tree
from paddock.errors import Unavailable
from paddock.model import BoxState
from paddock.store import SCHEMA
from tests.support import contract
from tests.support.installation import IS_ROOT, PROGRAM, Installation, alive, children, until
from tests.support.nursery import Nursery
from tests.support.smalldisk import Inside, small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from paddock.client import Paddock

pytestmark = pytest.mark.box
ENGINES = contract.FULL


@pytest.fixture
def home(own_installation: Installation) -> Iterator[Installation]:
    with Nursery() as nursery:
        yield own_installation
        own_installation.clear()
        assert own_installation.cli("daemon", "stop").returncode == 0
        until(lambda: not nursery.living(), f"no process is left: {nursery.named()}")


@pytest.fixture
def sdk(home: Installation) -> Iterator[Paddock]:
    with home.sdk() as opened:
        yield opened


def names(home: Installation) -> list[str]:
    done = home.cli("ls", "-q")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split()


def refusal(done: subprocess.CompletedProcess[bytes]) -> str:
    """The error of a command that could not be done, which has two lines and the exit code of an unavailable box."""
    assert done.returncode == 125, (done.returncode, done.stdout, done.stderr)
    assert re.fullmatch(rb"error: .+\nhint: .+\n", done.stderr), done.stderr
    return done.stderr.decode()


def contents(home: Installation) -> list[str]:
    """The boxes on disk and what the trash holds."""
    return sorted(
        str(path.relative_to(home.state)) for part in ("boxes", "trash") for path in (home.state / part).iterdir()
    )


# -- the database ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def database(home: Installation) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(home.state / "paddock.db")) as db, db:
        yield db


def test_a_damaged_row_is_reported_and_kept_while_the_others_work(home: Installation, sdk: Paddock) -> None:
    for name in ("good", "bad"):
        box = sdk.create(name, workspace=str(home.workspace))
        assert box.exec(["sh", "-c", f"echo {name} > ~/file"]).ok
        box.stop()
    home.kill_daemon()
    with database(home) as db:
        db.execute("UPDATE boxes SET spec = replace(spec, '\"agent\"', '\"agenT\"') WHERE name = 'bad'")
    assert names(home) == ["good"]
    assert home.cli("exec", "good", "cat", "/home/agent/file").stdout == b"good\n"
    for words in (("doctor",), ("daemon", "status"), ("doctor", "--json"), ("daemon", "status", "--json")):
        said = home.cli(*words).stdout.decode()
        assert "box bad: its record is damaged" in said, said
        assert "doctor --rebuild" in said
    with database(home) as db:
        assert db.execute("SELECT name FROM boxes ORDER BY name").fetchall() == [("bad",), ("good",)]
    taken = home.cli("create", "bad", ".")
    assert (taken.returncode, taken.stderr.splitlines()[0]) == (2, b"error: a box named 'bad' exists")
    assert home.cli("daemon", "stop").returncode == 0
    assert b"box bad: restored" in home.cli("doctor", "--rebuild").stdout
    assert home.cli("exec", "bad", "cat", "/home/agent/file").stdout == b"bad\n"
    assert names(home) == ["good", "bad"]


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def make_noise(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(4096))


def break_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage!" * 8)


@pytest.mark.parametrize("damage", [truncate, os.unlink, make_noise, break_header])
def test_a_damaged_database_is_said_and_rebuilt_from_the_boxes(
    home: Installation, sdk: Paddock, damage: Callable[[Path], None]
) -> None:
    """Homes, environments and running boxes are there again; nothing is reset, and the damaged file is kept."""
    (home.workspace / "go").touch()
    running = sdk.create("running", workspace=str(home.workspace), env={"COLOUR": "blue"})
    stopped = sdk.create("stopped", workspace=str(home.workspace))
    for box in (running, stopped):
        assert box.exec(["sh", "-c", f"echo {box.name} > ~/file"]).ok
    stopped.stop()
    sdk.create("created", workspace=str(home.workspace))
    running.set_env({"SHAPE": "round"})
    job = running.detach(["sh", "-c", "echo one; while [ -e go ]; do sleep 0.02; done; echo two"])
    pid = running.refresh().pid
    assert home.cli("daemon", "stop").returncode == 0
    damage(home.state / "paddock.db")
    for suffix in ("-wal", "-shm"):
        (home.state / f"paddock.db{suffix}").unlink(missing_ok=True)
    before = contents(home)
    for words in (("ls",), ("create", "new", "."), ("run", "--", "true"), ("daemon", "start")):
        said = refusal(home.cli(*words))
        assert "is damaged" in said
        assert "paddock doctor --rebuild" in said
    doctor = home.cli("doctor")
    assert doctor.returncode == 125
    assert b"is damaged" in doctor.stdout
    assert b"fix: run `paddock doctor --rebuild`" in doctor.stdout
    assert contents(home) == before
    report = home.cli("doctor", "--rebuild").stdout.decode()
    if damage is not os.unlink:
        assert re.search(r"kept the old database as .*paddock\.db\.corrupt-\d+T\d+", report)
    assert sorted(re.findall(r"box (\w+): restored", report)) == ["created", "running", "stopped"]
    found = {box.name: (box.state, box.pid) for box in sdk.ls()}
    assert found == {
        "running": (BoxState.RUNNING, pid),
        "stopped": (BoxState.STOPPED, None),
        "created": (BoxState.CREATED, None),
    }
    assert sdk.named("running").exec(["sh", "-c", "cat ~/file; echo $COLOUR$SHAPE"]).stdout == b"running\nblueround\n"
    assert sdk.named("stopped").exec(["cat", "/home/agent/file"]).stdout == b"stopped\n"
    (home.workspace / "go").unlink()
    assert home.cli("logs", "-f", f"running/{job}").stdout == b"one\ntwo\n"


def test_a_run_in_progress_survives_a_rebuild(home: Installation) -> None:
    command = home.spawn("run", "--", "sh", "-c", "echo ready; read line; exit 6")
    assert command.stdout is not None
    assert command.stdout.readline() == b"ready\n"
    home.kill_daemon()
    truncate(home.state / "paddock.db")
    assert home.cli("doctor", "--rebuild").returncode == 0
    assert len(names(home)) == 1
    command.communicate(b"go\n", timeout=20)
    assert command.returncode == 6
    until(lambda: names(home) == [], "the box is gone")


def test_a_database_of_a_newer_version_is_left_alone(home: Installation, sdk: Paddock) -> None:
    sdk.create("kept", workspace=str(home.workspace))
    assert home.cli("daemon", "stop").returncode == 0
    with database(home) as db:
        db.execute(f"PRAGMA user_version={SCHEMA + 1}")
    assert "was written by a newer paddock" in refusal(home.cli("ls"))
    with database(home) as db:
        db.execute(f"PRAGMA user_version={SCHEMA}")
    assert names(home) == ["kept"]


def test_a_rebuild_waits_for_no_running_daemon(home: Installation, sdk: Paddock) -> None:
    sdk.create("kept", workspace=str(home.workspace))
    assert "a daemon is running" in refusal(home.cli("doctor", "--rebuild"))
    assert names(home) == ["kept"]


def test_a_box_the_database_lost_is_taken_back(home: Installation, sdk: Paddock) -> None:
    """As when the end of the write-ahead log is lost: the row is gone, the box runs."""
    box = sdk.create("lost", workspace=str(home.workspace), env={"COLOUR": "blue"})
    assert box.exec(["sh", "-c", "echo kept > ~/file"]).ok
    pid = box.refresh().pid
    home.kill_daemon()
    with database(home) as db:
        db.execute("DELETE FROM boxes")
    assert [(info.name, info.pid) for info in sdk.ls()] == [("lost", pid)]
    assert b"box lost: the database had lost it; restored" in home.cli("doctor").stdout
    assert box.exec(["sh", "-c", "cat ~/file; echo $COLOUR"]).stdout == b"kept\nblue\n"


def test_files_of_a_box_that_nothing_describes_are_set_aside_not_deleted(home: Installation, sdk: Paddock) -> None:
    box = sdk.create("lost", workspace=str(home.workspace))
    assert box.exec(["sh", "-c", "echo kept > ~/file"]).ok
    box.stop()
    home.kill_daemon()
    with database(home) as db:
        db.execute("DELETE FROM boxes")
    (home.state / "boxes" / box.info.id / "box.json").write_bytes(b"\0" * 100)
    assert names(home) == []
    aside = home.state / f"unreadable-{box.info.id}"
    assert (aside / "home" / "file").read_text() == "kept\n"
    assert str(aside).encode() in home.cli("doctor").stdout
    shutil.rmtree(aside)


# -- no room -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    yield from small_disk(tmp_path, "size=8m,mode=700")


@pytest.mark.privileged
def test_on_a_full_disk_requests_fail_clearly_and_work_again_when_there_is_room(inside: Inside) -> None:
    assert inside.cli("create", "idle", ".").returncode == 0
    assert inside.cli("create", "busy", ".").returncode == 0
    assert inside.cli("exec", "busy", "true").returncode == 0
    daemon, before = inside.daemon_pid(), contents(inside)
    inside.fill()
    impossible = [
        ("create", "new", "."),
        ("run", "--", "true"),
        ("exec", "idle", "true"),
        ("exec", "-d", "busy", "true"),
        ("env", "busy", "A=" + "b" * 5000),
    ]
    for words in impossible:
        said = refusal(inside.cli(*words))
        assert re.search(r"space|full|disk", said), said
    assert names(inside) == ["idle", "busy"]
    assert inside.cli("exec", "busy", "echo", "here").stdout == b"here\n"  # what writes nothing goes on
    assert inside.cli("logs", "--list", "busy").stderr.startswith(b"no journalled commands")
    until(lambda: contents(inside) == before, "nothing half-made is left")
    inside.free()
    for words in impossible:
        done = inside.cli(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert inside.daemon_pid() == daemon
    assert sorted(names(inside)) == ["busy", "idle", "new"]


@pytest.mark.privileged
def test_on_a_full_disk_boxes_can_be_removed(inside: Inside) -> None:
    for name in ("one", "two", "three"):
        assert inside.cli("create", name, ".").returncode == 0
        assert inside.cli("exec", name, "sh", "-c", "head -c 100000 /dev/zero > ~/file").returncode == 0
    inside.fill()
    assert inside.cli("rm", "-f", "one").returncode == 0
    inside.fill()
    assert inside.cli("stop", "--grace", "0", "two").returncode == 0
    assert inside.cli("rm", "two").returncode == 0
    assert names(inside) == ["three"]
    inside.free()
    inside.kill_daemon()
    assert names(inside) == ["three"]


@pytest.mark.privileged
def test_a_daemon_that_starts_on_a_full_disk_says_so_and_loses_nothing(inside: Inside) -> None:
    assert inside.cli("create", "kept", ".").returncode == 0
    assert inside.cli("exec", "kept", "sh", "-c", "echo kept > ~/file").returncode == 0
    pid = json.loads(inside.cli("inspect", "--json", "kept").stdout)[0]["pid"]
    inside.kill_daemon()
    os.kill(pid, signal.SIGKILL)
    inside.fill()
    done = inside.cli("ls", "-q")
    if done.returncode != 0:
        assert re.search(r"space|full|disk", refusal(done))
    inside.free()
    assert names(inside) == ["kept"]
    assert inside.cli("exec", "kept", "cat", "/home/agent/file").stdout == b"kept\n"


@pytest.mark.privileged
def test_a_read_only_home_is_refused_with_the_reason(inside: Inside) -> None:
    assert inside.cli("create", "kept", ".").returncode == 0
    inside.kill_daemon()
    inside.remount("ro")
    assert re.search(r"[Rr]ead-only|readonly", refusal(inside.cli("ls")))
    inside.remount("rw")
    assert names(inside) == ["kept"]


def test_a_home_that_cannot_be_made_is_refused_with_the_reason(home: Installation) -> None:
    file = home.workspace / "file"
    file.touch()
    done = home.cli("ls", env={"PADDOCK_HOME": str(file / "below")})
    assert done.returncode in {2, 125}
    assert re.fullmatch(rb"error: .*not a directory.*\nhint: .+\n", done.stderr, re.IGNORECASE), done.stderr


def limit(pid: int, number: int, soft: int) -> None:
    _, hard = resource.prlimit(pid, number)
    resource.prlimit(pid, number, (soft if soft >= 0 else hard, hard))


def test_writes_that_fail_make_nothing_and_work_again_without_a_restart(home: Installation, sdk: Paddock) -> None:
    """No file of the daemon's may grow: each write fails with EFBIG."""
    sdk.create("idle", workspace=str(home.workspace))
    busy = sdk.create("busy", workspace=str(home.workspace))
    assert busy.exec(["true"]).ok
    daemon, before = home.daemon_pid(), contents(home)
    impossible = [
        ("create", "new", "."),
        ("run", "--", "true"),
        ("exec", "idle", "true"),
        ("exec", "-d", "busy", "true"),
        ("env", "busy", "A=b"),
    ]
    limit(daemon, resource.RLIMIT_FSIZE, 0)
    for words in impossible:
        refusal(home.cli(*words))
    assert names(home) == ["idle", "busy"]
    assert busy.exec(["echo", "here"]).stdout == b"here\n"
    assert (busy.refresh().env_names, busy.jobs()) == ((), [])
    until(lambda: contents(home) == before, "nothing half-made is left")
    limit(daemon, resource.RLIMIT_FSIZE, -1)
    for words in impossible:
        done = home.cli(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert home.daemon_pid() == daemon
    assert sorted(names(home)) == ["busy", "idle", "new"]


def test_an_ended_run_whose_row_cannot_be_removed_goes_when_there_is_room(home: Installation) -> None:
    command = home.spawn("run", "--", "sh", "-c", "echo ready; read line")
    assert command.stdout is not None
    assert command.stdout.readline() == b"ready\n"
    daemon = home.daemon_pid()
    limit(daemon, resource.RLIMIT_FSIZE, 0)
    command.communicate(b"go\n", timeout=20)
    assert command.returncode == 0
    until(lambda: not list((home.state / "boxes").iterdir()), "its files are gone")
    limit(daemon, resource.RLIMIT_FSIZE, -1)
    until(lambda: names(home) == [], "its row is gone", 15)
    assert home.daemon_pid() == daemon


# -- no descriptors, no processes --------------------------------------------------------------------------------------


def start_limited(home: Installation, files: int) -> int:
    """A daemon that may have so many descriptors and no more."""
    subprocess.run(
        [str(PROGRAM), "daemon", "start"],
        env=home.environ,
        check=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
    )
    return home.daemon_pid()


def test_without_descriptors_requests_fail_and_the_daemon_recovers(home: Installation) -> None:
    daemon = start_limited(home, 64)
    running: list[str] = []
    failed: dict[str, subprocess.CompletedProcess[bytes]] = {}
    for name in (f"box{n}" for n in range(60)):
        done = _box(home, name)
        if done.returncode:
            failed[name] = done
        else:
            running.append(name)
        if len(failed) == 6:
            break
    assert (len(running) > 5, len(failed)) == (True, 6)
    assert all("open files" in refusal(done) for done in failed.values())
    assert home.daemon_pid() == daemon
    assert home.cli("rm", "-f", *running[:8]).returncode == 0
    assert home.cli("create", "new", ".").returncode == 0
    for name in ("new", *failed):
        if home.cli("inspect", name).returncode == 0:
            assert home.cli("exec", name, "true").returncode == 0
            assert home.cli("rm", "-f", name).returncode == 0
    assert home.sh("exit 3").returncode == 3
    assert home.daemon_pid() == daemon
    assert home.cli("reset", "-f").returncode == 0
    until(lambda: open_files(home) < 40, "the descriptors are given back")


def open_files(home: Installation) -> int:
    count = home.status()["open_files"]
    assert isinstance(count, int)
    return count


def _box(home: Installation, name: str) -> subprocess.CompletedProcess[bytes]:
    done = home.cli("create", name, ".")
    return home.cli("exec", name, "true") if done.returncode == 0 else done


def test_clients_that_hold_all_descriptors_are_answered_with_the_reason(home: Installation) -> None:
    daemon = start_limited(home, 64)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(home.sdk()) for _ in range(60)]
        with pytest.raises(Unavailable, match="Too many open files") as caught:
            [client.ls() for client in idle]
        assert "ulimit -Hn" in caught.value.hint
        assert alive(daemon)
    assert names(home) == []
    assert home.daemon_pid() == daemon


@contextlib.contextmanager
def no_room_for_processes(pid: int) -> Iterator[None]:
    """fork fails with EAGAIN in this process: by its rlimit, or for root, whom none binds, by a cgroup."""
    if not IS_ROOT:
        limit(pid, resource.RLIMIT_NPROC, 1)
        yield
        limit(pid, resource.RLIMIT_NPROC, -1)
        return
    try:
        tree = cgroup_tree.locate("pids")
        group = tree.own / f"test-{pid}"
        group.mkdir()
    except (Unavailable, OSError) as error:
        pytest.skip(f"no pids controller: {error}")
    before = _cgroup_of(pid, tree)
    try:
        (group / "pids.max").write_text("0")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        if alive(pid):
            (before / "cgroup.procs").write_text(str(pid))
        until(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
        group.rmdir()


def _cgroup_of(pid: int, tree: cgroup_tree.Tree) -> Path:
    for line in (type(tree.own)(f"/proc/{pid}/cgroup")).read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(",") or (tree.version == 2 and not controllers):
            return tree.mount / path.lstrip("/")
    raise AssertionError(pid)


def test_without_room_for_a_process_no_box_is_made_and_the_next_one_is(home: Installation, sdk: Paddock) -> None:
    busy = sdk.create("busy", workspace=str(home.workspace))
    assert busy.exec(["true"]).ok
    daemon = home.daemon_pid()
    (launcher,) = children(daemon)
    fds = len(os.listdir(f"/proc/{launcher}/fd"))
    with no_room_for_processes(launcher):
        for _ in range(10):
            said = refusal(home.cli("run", "--", "true"))
            assert os.strerror(errno.EAGAIN) in said
            assert "ulimit -u" in said
        assert busy.exec(["echo", "here"]).stdout == b"here\n"
    assert len(os.listdir(f"/proc/{launcher}/fd")) == fds
    until(lambda: names(home) == ["busy"], "nothing half-made is left")
    assert home.sh("exit 3").returncode == 3
    assert home.daemon_pid() == daemon


def test_a_launcher_that_cannot_be_replaced_now_is_replaced_later(home: Installation) -> None:
    home.sh("true")
    daemon = home.daemon_pid()
    (launcher,) = children(daemon)
    with no_room_for_processes(daemon):
        os.kill(launcher, signal.SIGKILL)
        until(lambda: not alive(launcher), "the launcher is gone")
        for _ in range(3):
            refusal(home.cli("run", "--", "true"))
    until(lambda: names(home) == [], "nothing half-made is left")
    assert home.sh("exit 3").returncode == 3
    assert home.daemon_pid() == daemon

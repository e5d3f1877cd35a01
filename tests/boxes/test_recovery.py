"""The daemon may die at any moment: boxes and jobs go on, and the next command finds everything again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs, proc
from paddock.model import BoxState, Limits
from paddock.store import Store
from tests.support import contract
from tests.support.installation import PROGRAM, ROOT, alive, children, until
from tests.support.nursery import Nursery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from paddock.model import BoxInfo
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

FOUND_WITHIN_S = 5.0  # architecture: one second; these tests run on busy machines too
COUNTER = "n=0; while [ -e go ]; do n=$((n+1)); echo line $n; sleep 0.02; done; echo end $n; exit 3"


@pytest.fixture
def home(own_installation: Installation) -> Iterator[Installation]:
    """An installation that leaves no process behind, whoever was killed meanwhile."""
    with Nursery() as nursery:
        yield own_installation
        own_installation.clear()
        own_installation.cli("daemon", "stop")
        until(lambda: not nursery.living(), f"no process is left: {nursery.named()}")


@pytest.fixture
def sdk(home: Installation) -> Iterator[Paddock]:
    with home.sdk() as opened:
        yield opened


def make(sdk: Paddock, home: Installation, name: str, limits: Limits | None = None) -> Box:
    """A box that runs."""
    box = sdk.create(name, workspace=str(home.workspace), limits=limits)
    assert box.exec(["true"]).ok
    return box


def info(home: Installation, name: str) -> BoxInfo:
    with home.sdk() as sdk:
        return sdk.get(name).info


def init_pid(home: Installation, name: str) -> int:
    pid = info(home, name).pid
    assert pid is not None
    return pid


def names(home: Installation) -> list[str]:
    return home.cli("ls", "-q").stdout.decode().split()


def directory(home: Installation, name: str) -> Path:
    return home.state / "boxes" / info(home, name).id


def repairs(home: Installation) -> str:
    return "\n".join(map(str, home.status()["repairs"]))  # type: ignore[call-overload]


def update_row(home: Installation, name: str, **values: object) -> None:
    """Change a row behind the back of the daemon, which must not be running."""
    with contextlib.closing(sqlite3.connect(home.state / "paddock.db")) as db, db:
        for key, value in values.items():
            db.execute(f"UPDATE boxes SET {key} = ? WHERE name = ?", (value, name))


# -- what goes on without a daemon -------------------------------------------------------------------------------------


def test_a_box_and_its_job_outlive_the_daemon_and_are_found_at_once(home: Installation, sdk: Paddock) -> None:
    (home.workspace / "go").touch()
    job = make(sdk, home, "kept").detach(["sh", "-c", COUNTER])
    pid, journal = init_pid(home, "kept"), directory(home, "kept") / "journal" / f"{job}.0"
    home.kill_daemon()
    assert alive(pid)
    size = journal.stat().st_size
    until(lambda: journal.stat().st_size > size + 200, "the job is journalled while no daemon runs")
    begun = time.monotonic()
    listing = json.loads(home.cli("ls", "--json").stdout)
    took_s = time.monotonic() - begun
    print(f"the first command after kill -9 of the daemon took {took_s * 1000:.0f} ms")  # noqa: T201
    assert took_s < FOUND_WITHIN_S
    assert [(row["name"], row["state"], row["pid"]) for row in listing] == [("kept", "running", pid)]
    (home.workspace / "go").unlink()
    lines = home.cli("logs", "-f", "kept").stdout.decode().splitlines()
    last = int(lines[-1].removeprefix("end "))
    assert lines == [*(f"line {n}" for n in range(1, last + 1)), f"end {last}"]


def test_the_exit_code_of_a_job_that_ended_without_a_daemon_is_known(home: Installation, sdk: Paddock) -> None:
    (home.workspace / "go").touch()
    box = make(sdk, home, "kept")
    jobs = {box.detach(["sh", "-c", f"{COUNTER}".replace("exit 3", f"exit {code}")]): code for code in (0, 3, 200)}
    killed = box.detach(["sh", "-c", "while [ -e go ]; do sleep 0.02; done; kill -9 $$"])
    home.kill_daemon()
    (home.workspace / "go").unlink()
    journals = home.state / "boxes" / box.info.id / "journal"
    until(lambda: all(b'"exit"' in (journals / f"{job}.0").read_bytes() for job in [*jobs, killed]), "all have ended")
    found = {job.id: (job.running, job.exit_code) for job in sdk.named("kept").jobs()}
    assert found == {**{job: (False, code) for job, code in jobs.items()}, killed: (False, 137)}


def test_logs_that_are_followed_go_on_when_the_daemon_is_killed(home: Installation, sdk: Paddock) -> None:
    (home.workspace / "go").touch()
    make(sdk, home, "kept").detach(["sh", "-c", COUNTER])
    following = home.spawn("logs", "-f", "kept")
    assert following.stdout is not None
    assert following.stdout.readline() == b"line 1\n"
    home.kill_daemon()
    for n in range(2, 60):
        assert following.stdout.readline() == b"line %d\n" % n
    (home.workspace / "go").unlink()
    out, err = following.communicate(timeout=20)
    assert (following.returncode, err) == (0, b"")
    assert out.splitlines()[-1].startswith(b"end ")


@pytest.mark.parametrize("verb", ["exec", "run"])
def test_a_command_that_streams_goes_on_when_the_daemon_is_killed(home: Installation, sdk: Paddock, verb: str) -> None:
    make(sdk, home, "kept")
    words = ("exec", "-i", "kept") if verb == "exec" else ("run", "--")
    command = home.spawn(*words, "sh", "-c", "cat; exit 5")
    assert command.stdin is not None
    assert command.stdout is not None
    for n, kill in enumerate([False, True, False]):
        if kill:
            home.kill_daemon()
        command.stdin.write(b"line %d\n" % n)
        command.stdin.flush()
        assert command.stdout.readline() == b"line %d\n" % n
    _, err = command.communicate(timeout=20)
    assert (command.returncode, err) == (5, b"")
    until(lambda: names(home) == ["kept"], "the box of the run is gone")


def test_a_terminal_session_goes_on_when_the_daemon_is_killed(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    ours, theirs = pty.openpty()
    words = [str(PROGRAM), "exec", "-t", "kept", "sh", "-c", "echo ready; exec cat"]
    command = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=home.environ, cwd=home.workspace, start_new_session=True
    )
    os.close(theirs)
    try:
        _read_until(ours, b"ready", 1)
        for word in (b"before", b"after"):
            os.write(ours, word + b"\n")
            _read_until(ours, word, 2)  # the terminal's echo, and cat's
            if word == b"before":
                home.kill_daemon()
        os.write(ours, b"\x04")
        assert command.wait(20) == 0
    finally:
        command.kill()
        command.wait()
        os.close(ours)


def _read_until(terminal: int, word: bytes, times: int) -> None:
    seen = b""
    while seen.count(word) < times:
        seen += os.read(terminal, 4096)


# -- what was promised, and what was not -------------------------------------------------------------------------------


def test_what_was_acknowledged_holds_after_the_daemon_is_killed(home: Installation) -> None:
    for name in ("kept", "gone"):
        assert home.cli("create", name, ".").returncode == 0
    home.kill_daemon()
    assert names(home) == ["kept", "gone"]
    assert home.cli("env", "kept", "COLOUR=blue", "SHAPE=round").returncode == 0
    home.kill_daemon()
    assert home.cli("env", "kept", "-u", "SHAPE").returncode == 0
    home.kill_daemon()
    assert home.cli("exec", "kept", "sh", "-c", "echo $COLOUR$SHAPE").stdout == b"blue\n"
    assert home.cli("rm", "gone").returncode == 0
    home.kill_daemon()
    assert names(home) == ["kept"]
    assert home.cli("stop", "kept").returncode == 0
    home.kill_daemon()
    assert info(home, "kept").state is BoxState.STOPPED


@pytest.mark.parametrize(
    ("words", "names_after", "env_after", "jobs_after"),
    [
        (("create", "new", "."), ["kept", "new"], (), 0),
        (("rm", "-f", "kept"), [], (), 0),
        (("env", "kept", "A=b"), ["kept"], ("A",), 0),
        (("run", "--", "true"), ["kept"], (), 0),
        (("exec", "-d", "kept", "true"), ["kept"], (), 1),
    ],
)
def test_a_request_the_daemon_never_read_is_done_once_by_the_next(
    home: Installation,
    sdk: Paddock,
    words: tuple[str, ...],
    names_after: list[str],
    env_after: tuple[str, ...],
    jobs_after: int,
) -> None:
    make(sdk, home, "kept")
    daemon = home.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    request = home.spawn(*words)
    until(lambda: _waits_for_answer(request.pid), "the request is sent")
    os.kill(daemon, signal.SIGKILL)
    _, err = request.communicate(timeout=30)
    assert (request.returncode, err) == (0, b"")
    until(lambda: names(home) == names_after, "what was asked is done")
    if names_after:
        assert sdk.get("kept").info.env_names == env_after
        assert len(sdk.named("kept").jobs()) == jobs_after


@pytest.mark.parametrize(
    ("words", "sign", "names_after"),
    [
        (("create", "new", "."), "boxes/*/", ["kept"]),
        (("rm", "-f", "kept"), "trash/*", []),
        (("env", "kept", "A=b"), "boxes/*/box.json", ["kept"]),
        (("stop", "kept"), "", ["kept"]),
        (("exec", "-d", "kept", "sleep", "600"), "boxes/*/journal/*.1", ["kept"]),
    ],
)
def test_a_request_cut_short_says_so_and_leaves_nothing_half_done(
    home: Installation, sdk: Paddock, words: tuple[str, ...], sign: str, names_after: list[str]
) -> None:
    """The database is locked, so each request gets as far as its first write and no further."""
    box = make(sdk, home, "kept")
    before = _signs(home, sign)
    pid = init_pid(home, "kept")
    with contextlib.closing(sqlite3.connect(home.state / "paddock.db", isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        request = home.spawn(*words)
        if sign:
            until(lambda: _signs(home, sign) != before, "the request is under way")
        else:
            until(lambda: not alive(pid), "the request is under way")
        os.kill(home.daemon_pid(), signal.SIGKILL)
        _, err = request.communicate(timeout=30)
    assert request.returncode == 125
    assert err.splitlines()[0] == b"error: the daemon went away"
    assert names(home) == names_after
    until(lambda: not list((home.state / "trash").iterdir()), "the trash is empty")
    found = [entry.name for entry in (home.state / "boxes").iterdir()]
    assert found == ([box.info.id] if names_after else [])
    if names_after:
        assert sdk.get("kept").info.env_names == ()
        assert sdk.named("kept").jobs() == []
        assert list((home.state / "boxes" / box.info.id / "journal").iterdir()) == []
        assert sdk.named("kept").exec(["true"]).ok


def _signs(home: Installation, pattern: str) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_ino) for path in home.state.glob(pattern)) if pattern else []


def _waits_for_answer(pid: int) -> bool:
    """Whether a process sits in recvmsg on a unix socket."""
    try:
        return "unix_stream" in Path(f"/proc/{pid}/wchan").read_text() or _syscall(pid) == 47
    except OSError:
        return False


def _syscall(pid: int) -> int:
    word = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    return int(word) if word.isdigit() else -1


def test_a_box_that_was_being_made_leaves_nothing(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    home.kill_daemon()
    half = home.state / "boxes" / "0123456789ab"
    half.mkdir(mode=0o700)
    (half / ".new-00").write_bytes(b"half a record")
    assert names(home) == ["kept"]
    assert not half.exists()


def test_a_removal_that_was_begun_is_finished(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    gone = make(sdk, home, "gone")
    gone.stop()
    home.kill_daemon()
    (home.state / "boxes" / gone.info.id).rename(home.state / "trash" / "moved")
    assert names(home) == ["kept"]
    assert "box gone: its files are gone; removed" in repairs(home)
    until(lambda: not list((home.state / "trash").iterdir()), "the trash is empty")


def test_a_job_whose_command_was_never_sent_is_not_called_running(home: Installation, sdk: Paddock) -> None:
    box = make(sdk, home, "kept")
    home.kill_daemon()
    with contextlib.closing(sqlite3.connect(home.state / "paddock.db")) as db, db:
        values = ("feedc0de", box.info.id, '["never"]', "2020-01-01T00:00:00.000+00:00")
        db.execute("INSERT INTO jobs (id, box, argv, started_at) VALUES (?, ?, ?, ?)", values)
    (home.state / "boxes" / box.info.id / "journal" / "feedc0de.0").touch()
    (job,) = sdk.named("kept").jobs()
    assert (job.running, job.exit_code) == (False, None)


# -- what else can be killed -------------------------------------------------------------------------------------------


def launcher_of(home: Installation) -> int:
    (pid,) = children(home.daemon_pid())
    return pid


def test_a_killed_launcher_is_replaced_and_nobody_notices(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "one")
    launcher = launcher_of(home)
    os.kill(launcher, signal.SIGKILL)
    until(lambda: not alive(launcher), "the launcher is gone")
    assert home.cli("exec", "one", "true").returncode == 0
    assert home.sh("exit 4").returncode == 4
    assert make(sdk, home, "two").exec(["true"]).ok
    assert launcher_of(home) != launcher


def test_a_launcher_killed_while_it_makes_a_box_is_asked_again(home: Installation, sdk: Paddock) -> None:
    sdk.create("one", workspace=str(home.workspace))
    launcher = launcher_of(home)
    os.kill(launcher, signal.SIGSTOP)
    command = home.spawn("exec", "one", "echo", "made")
    socket_file = home.state / "boxes" / info(home, "one").id / "run" / "init.sock"
    until(socket_file.exists, "the box is being made")
    time.sleep(0.2)  # nothing shows that the request lies in the launcher's queue
    os.kill(launcher, signal.SIGKILL)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (0, b"made\n", b"")


def test_a_killed_init_fails_its_box_and_no_other(home: Installation, sdk: Paddock) -> None:
    box, _ = make(sdk, home, "hit"), make(sdk, home, "other")
    assert box.exec(["sh", "-c", "echo kept > ~/file"]).ok
    other_pid = init_pid(home, "other")
    streaming = home.spawn("exec", "hit", "sleep", "600")
    until(lambda: sdk.named("hit").processes(), "the command runs")
    pid = init_pid(home, "hit")
    os.kill(pid, signal.SIGKILL)
    _, err = streaming.communicate(timeout=20)
    assert streaming.returncode == 137
    assert b"its first process ended unexpectedly" in err
    until(lambda: sdk.get("hit").info.state is BoxState.FAILED, "the box is marked", 5)
    assert sdk.get("hit").info.reason == "its first process ended unexpectedly"
    assert (sdk.get("other").info.state, sdk.get("other").info.pid) == (BoxState.RUNNING, other_pid)
    assert sdk.named("hit").exec(["cat", "/home/agent/file"]).stdout == b"kept\n"
    assert sdk.get("hit").info.reason == ""


def test_an_init_killed_while_no_daemon_runs_is_found_ended(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "hit")
    pid = init_pid(home, "hit")
    home.kill_daemon()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "init is gone")
    found = info(home, "hit")
    assert (found.state, found.reason, found.pid) == (BoxState.STOPPED, "it ended while no daemon ran", None)
    assert "box hit: it ended while no daemon ran; marked stopped" in repairs(home)
    assert home.cli("exec", "hit", "true").returncode == 0


def test_a_killed_exec_ends_its_command_and_the_box_stays(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    command = home.spawn("exec", "kept", "sh", "-c", "trap '' HUP; echo ready; sleep 600")
    assert command.stdout is not None
    assert command.stdout.readline() == b"ready\n"
    command.kill()
    command.communicate()
    until(lambda: not sdk.named("kept").processes(), "the command of a killed caller is gone")
    assert sdk.get("kept").info.state is BoxState.RUNNING


def test_a_run_killed_together_with_the_daemon_leaves_no_box(home: Installation) -> None:
    command = home.spawn("run", "--", "sh", "-c", "echo ready; sleep 600")
    assert command.stdout is not None
    assert command.stdout.readline() == b"ready\n"
    daemon = home.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    command.kill()
    command.communicate()
    until(lambda: names(home) == [], "the box is gone")
    until(lambda: not list((home.state / "boxes").iterdir()), "its files are gone")


def test_a_box_that_is_stuck_stops_nobody_else_and_can_be_removed(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "stuck")
    make(sdk, home, "other")
    first = init_pid(home, "stuck")
    for pid in (first, *children(first)):  # a container's init is below its keeper
        os.kill(pid, signal.SIGSTOP)
    waiting = [home.spawn("exec", "stuck", "true") for _ in range(3)]
    assert home.cli("exec", "other", "echo", "fine", timeout_s=10).stdout == b"fine\n"
    assert home.cli("rm", "-f", "stuck", timeout_s=10).returncode == 0
    for command in waiting:
        command.communicate(timeout=20)
        assert command.returncode in {125, 137}
    assert names(home) == ["other"]


# -- evidence ----------------------------------------------------------------------------------------------------------


def test_a_box_started_just_before_the_crash_is_taken_over(home: Installation, sdk: Paddock) -> None:
    """The daemon died between the start of a box and its record: the row says created, the socket answers."""
    make(sdk, home, "kept")
    pid = init_pid(home, "kept")
    home.kill_daemon()
    update_row(home, "kept", state="created", pid=None, start_ticks=None, boot_id=None)
    assert init_pid(home, "kept") == pid
    assert "box kept: was running without a record; taken over" in repairs(home)
    home.kill_daemon()
    assert init_pid(home, "kept") == pid
    assert "taken over" not in repairs(home)  # it has a record now


def test_the_record_of_an_earlier_run_does_not_hide_the_present_one(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    pid = init_pid(home, "kept")
    home.kill_daemon()
    update_row(home, "kept", pid=1, start_ticks=1)
    assert init_pid(home, "kept") == pid


@pytest.mark.parametrize(
    ("ticks", "boot", "is_signalled"),
    [
        pytest.param(0, "", True, id="its very own evidence, so that the others prove something"),
        pytest.param(1, "", False, id="another process with the same pid"),
        pytest.param(0, "00000000-0000-0000-0000-000000000000", False, id="another boot"),
    ],
)
def test_a_process_that_has_the_pid_of_a_dead_box_is_never_signalled(
    home: Installation, sdk: Paddock, ticks: int, boot: str, is_signalled: bool
) -> None:
    make(sdk, home, "dead").stop()
    home.kill_daemon()
    innocent = subprocess.Popen(["sleep", "600"])
    try:
        found = proc.identity(innocent.pid)
        assert found is not None
        update_row(
            home,
            "dead",
            state="running",
            pid=innocent.pid,
            start_ticks=found[1] - ticks,
            boot_id=boot or proc.boot_id(),
        )
        assert home.cli("stop", "--grace", "0", "dead").returncode == 0
        assert home.cli("rm", "-f", "dead").returncode == 0
        if is_signalled:
            assert innocent.wait(10) == -signal.SIGKILL
        else:
            assert innocent.poll() is None
        assert list((home.state / "boxes").iterdir()) == []
    finally:
        innocent.kill()
        innocent.wait()


def test_a_box_of_another_boot_is_stopped(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    pid = init_pid(home, "kept")
    home.kill_daemon()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "init is gone, as after a reboot")
    update_row(home, "kept", boot_id="00000000-0000-0000-0000-000000000000")
    found = info(home, "kept")
    assert (found.state, found.reason) == (BoxState.STOPPED, "the machine was restarted")
    assert home.cli("exec", "kept", "true").returncode == 0


def test_limits_hold_again_after_the_daemon_was_killed(home: Installation, sdk: Paddock) -> None:
    begun = time.monotonic()
    make(sdk, home, "timed", Limits(wall_s=4.0)).detach(["sleep", "600"])
    home.kill_daemon()
    assert info(home, "timed").state is BoxState.RUNNING
    until(lambda: sdk.get("timed").info.state is BoxState.FAILED, "the wall time is over", 20)
    assert sdk.get("timed").info.reason == "wall time limit: 4 s are over"
    assert time.monotonic() - begun > 3.5


def test_a_limit_that_passed_while_no_daemon_ran_holds_at_once(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "timed", Limits(wall_s=5.0)).detach(["sleep", "600"])
    pid = init_pid(home, "timed")
    home.kill_daemon()
    time.sleep(5.1)  # the time that passes is what is tested
    assert alive(pid)
    until(lambda: sdk.get("timed").info.state is BoxState.FAILED, "the wall time is over", 5)


# -- boxes around one command ------------------------------------------------------------------------------------------


def test_a_run_of_a_killed_daemon_is_taken_over_until_its_command_ends(home: Installation) -> None:
    command = home.spawn("run", "--", "sh", "-c", "echo ready; read line; exit 6")
    assert command.stdout is not None
    assert command.stdout.readline() == b"ready\n"
    home.kill_daemon()
    (found,) = json.loads(home.cli("ls", "--json").stdout)
    assert (found["state"], found["ephemeral"]) == ("running", True)
    assert len(names(home)) == 1  # it was looked at, and left alone
    command.communicate(b"go\n", timeout=20)
    assert command.returncode == 6
    until(lambda: names(home) == [], "the box is gone")


def test_a_run_whose_command_never_began_is_ended(home: Installation, sdk: Paddock) -> None:
    box = make(sdk, home, "left")
    pid = init_pid(home, "left")
    home.kill_daemon()
    store = Store(str(home.state / "paddock.db"))
    (row,), _ = store.load()
    store.set_spec(row, dataclasses.replace(row.spec, ephemeral=True))
    store.close()
    until(lambda: names(home) == [], "the box nobody waits for is gone")
    assert not alive(pid)
    assert not (home.state / "boxes" / box.info.id).exists()


# -- one daemon --------------------------------------------------------------------------------------------------------


def daemons(home: Installation) -> list[int]:
    """Living daemons of this installation."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_daemon = b"paddock.daemon.main" in (entry / "cmdline").read_bytes()
            if is_daemon and _is_ours(home, entry) and alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def _is_ours(home: Installation, entry: Path) -> bool:
    """One that serves lets nobody look into it, and has signed the lock before."""
    try:
        return f"PADDOCK_HOME={home.home}\0".encode() in (entry / "environ").read_bytes() + b"\0"
    except PermissionError:
        return int(entry.name) == _holder(home)


def test_of_daemons_started_at_once_one_lives(home: Installation) -> None:
    for _ in range(3):
        starting = [home.spawn("daemon", "start", "--json") for _ in range(8)]
        answers = [process.communicate(timeout=30) for process in starting]
        assert [process.returncode for process in starting] == [0] * 8, answers
        pids = {json.loads(out)["pid"] for out, _ in answers}
        assert len(pids) == 1
        until(lambda pids=pids: daemons(home) == [*pids], "one daemon is left")  # type: ignore[misc]
        home.kill_daemon()


def test_a_daemon_killed_while_it_starts_is_started_again(home: Installation) -> None:
    assert names(home) == []
    killed = home.kill_daemon()
    command = home.spawn("ls", "-q")
    holder = killed
    while holder in {0, killed}:
        holder = _holder(home)
    os.kill(holder, signal.SIGKILL)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (0, b"", b"")


def _holder(home: Installation) -> int:
    """Who signed the lock; 0 while nobody has."""
    return int((home.state / "daemon.lock").read_text() or 0)


def test_a_second_daemon_is_refused_even_without_the_lock(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    first = home.daemon_pid()
    (home.state / "daemon.lock").unlink()
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); from paddock.daemon.main import main; main()"
    read, write = os.pipe()
    try:
        words = ["/usr/bin/python3", "-I", "-S", "-c", boot, str(ROOT / "src"), str(write)]
        second = subprocess.run(words, env=home.environ, pass_fds=[write], timeout=20, check=False, capture_output=True)
        answer = json.loads(os.read(read, 4096))
    finally:
        os.close(read)
        os.close(write)
    assert second.returncode == 0
    assert "already serves" in answer["error"]["message"]
    assert (home.daemon_pid(), names(home)) == (first, ["kept"])


def test_a_stale_socket_and_a_stale_lock_are_taken_over(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    home.kill_daemon()
    assert (home.state / "run" / "daemon.sock").is_socket()  # left behind by the kill
    with pytest.raises(ConnectionRefusedError):
        fs.connect_unix(str(home.state / "run"), "daemon.sock")
    (home.state / "daemon.lock").write_text(f"{os.getpid()}\n")  # names a living process, which holds no lock
    assert names(home) == ["kept"]


def test_stopping_the_daemon_keeps_boxes_running(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "kept")
    pid = init_pid(home, "kept")
    for _ in range(5):
        stopped = home.cli("daemon", "stop")
        assert stopped.stdout == b"stopped; 1 box keeps running\n"
        assert home.cli("exec", "kept", "echo", "here").stdout == b"here\n"  # the old one may still be on its way out
        assert init_pid(home, "kept") == pid


def test_a_client_that_stays_connected_finds_the_next_daemon(home: Installation) -> None:
    with home.sdk() as sdk:
        box = sdk.create("kept", workspace=str(home.workspace))
        for _ in range(3):
            home.kill_daemon()
            assert box.exec(["echo", "here"]).stdout == b"here\n"


def test_a_daemon_whose_state_was_deleted_ends_with_its_boxes(home: Installation, sdk: Paddock) -> None:
    make(sdk, home, "lost")
    daemon, pid = home.daemon_pid(), init_pid(home, "lost")
    shutil.rmtree(home.state)
    until(lambda: not alive(daemon), "the daemon ended by itself", 15)
    assert not alive(pid)  # nobody could ever find it again
    assert names(home) == []


def test_a_daemon_whose_socket_was_deleted_makes_room_for_another_and_boxes_stay(
    home: Installation, sdk: Paddock
) -> None:
    make(sdk, home, "kept")
    daemon, pid = home.daemon_pid(), init_pid(home, "kept")
    (home.state / "run" / "daemon.sock").unlink()
    assert init_pid(home, "kept") == pid  # waits until the old one has noticed
    assert home.daemon_pid() != daemon

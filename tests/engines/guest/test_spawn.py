"""Starting programs as a shell would find them, and ending whole trees of them."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.guest import spawn
from paddock.engines.process import kernel
from tests.support import namespaces
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from collections.abc import Callable

PIDS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID
ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, mode in (("one/tool", 0o755), ("two/tool", 0o755), ("one/plain", 0o644), ("two/plain", 0o755)):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(mode)
    (tmp_path / "one/folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "path", "found"),
    [
        ("tool", "{0}/one:{0}/two", "{0}/one/tool"),
        ("tool", "{0}/two:{0}/one", "{0}/two/tool"),
        ("tool", "/nonexistent:{0}/two", "{0}/two/tool"),
        ("plain", "{0}/one:{0}/two", "{0}/two/plain"),
        ("folder", "{0}/one", None),
        ("missing", "{0}/one", None),
        ("", "{0}/one", None),
        ("./tool", "", "./tool"),
        ("/anything/at/all", "", "/anything/at/all"),
    ],
)
def test_a_name_is_looked_up_as_a_shell_does(programs: Path, name: str, path: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(FileNotFoundError):
            spawn.resolve(name, path.format(programs))
        return
    assert spawn.resolve(name, path.format(programs)) == found.format(programs)


def test_an_empty_entry_of_the_path_is_the_current_directory(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs / "one")
    assert spawn.resolve("tool", ":/usr/bin") == "./tool"


STARTERS = pytest.mark.parametrize("start", [spawn.plain, spawn.forked])


def _output(start: Callable[..., int], *argv: str) -> tuple[bytes, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    pid = start(f"/bin/{argv[0]}", list(argv), ENV, [null, write, write])
    os.close(write)
    os.close(null)
    with open(read, "rb") as pipe:
        said = pipe.read()
    return said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@STARTERS
def test_a_program_gets_its_words_its_environment_and_its_streams(start: Callable[..., int]) -> None:
    said, code = _output(start, "sh", "-c", 'echo "$0 $1 $PATH"; echo err >&2; exit 5', "a b", "c")
    assert (said, code) == (b"a b c /usr/bin:/bin\nerr\n", 5)


@STARTERS
def test_a_program_leads_a_session_of_its_own(start: Callable[..., int]) -> None:
    said, _ = _output(start, "sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat")
    pid, group, session = said.split()
    assert pid == group == session


@STARTERS
def test_a_program_starts_with_every_signal_as_the_system_gives_it(start: Callable[..., int]) -> None:
    """An ignored SIGPIPE, Python's own habit, would make `yes | head` run for ever."""
    said, _ = _output(start, "cat", "/proc/self/status")
    assert [_signals(said.decode(), key) for key in ("SigBlk", "SigIgn", "SigCgt")] == [set(), set(), set()]
    assert signal.SIGPIPE in _signals(Path("/proc/self/status").read_text(), "SigIgn"), "here it is ignored"


def _signals(status: str, key: str) -> set[int]:
    mask = int(status.split(f"{key}:")[1].split(maxsplit=1)[0], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}  # 32 and 33 are libc's own


@STARTERS
@pytest.mark.parametrize(
    ("program", "number"),
    [("/nonexistent", errno.ENOENT), ("/etc/passwd", errno.EACCES), ("/", errno.EACCES)],
)
def test_a_program_that_cannot_start_is_an_error_here(start: Callable[..., int], program: str, number: int) -> None:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number tells
        start(program, [program], ENV, [null, null, null])
    assert caught.value.errno == number
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    os.close(null)


@pytest.mark.parametrize("start", [spawn.plain, spawn.forked])
def test_a_terminal_becomes_the_controlling_one(start: Callable[..., int]) -> None:
    ours, theirs = os.openpty()
    pid = start("/bin/sh", ["sh", "-c", "tty; echo x > /dev/tty; exit 3"], ENV, [os.ttyname(theirs), theirs])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    said = b""
    while not said.endswith(b"x\r\n"):  # a terminal hands on in its own time
        said += os.read(ours, 4096)
    assert said.split() == [os.ttyname(theirs).encode(), b"x"]
    for fd in (ours, theirs):
        os.close(fd)


# A parent that daemonises grandchildren twice over, each in a session of its own.
TREE = """
import os, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


def _start_tree(start: Callable[..., int]) -> int:
    read, write = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    pid = start("/usr/bin/python3", ["python3", "-c", TREE], ENV, [null, write, null])
    assert os.read(read, 6) == b"ready\n"
    return pid


def test_a_tracked_tree_is_killed_to_the_last_daemon() -> None:
    def act() -> None:
        namespaces.own_proc()
        pid = _start_tree(spawn.forked)
        until(lambda: len(spawn._descendants(pid)) == 3, "its daemons are reparented to it")
        spawn.kill_tree(pid)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        until(lambda: not spawn.others_alive(), "nothing is left")

    namespaces.inside(act, PIDS)


def test_daemons_of_an_untracked_command_get_away() -> None:
    """The other side of the test above: it is tracking that holds them."""

    def act() -> None:
        namespaces.own_proc()
        pid = _start_tree(spawn.plain)
        until(lambda: len(spawn._parents()) == 5, "three daemons, their parent and us")
        until(lambda: not spawn._descendants(pid), "they left their parent")
        spawn.kill_tree(pid)
        os.waitpid(pid, 0)
        assert spawn.others_alive()

    namespaces.inside(act, PIDS)


def test_a_tree_that_keeps_forking_is_killed_too() -> None:
    def act() -> None:
        namespaces.own_proc()
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        script = "while :; do sleep 600 & done"
        os.environ["LC_ALL"] = "C"
        import resource

        resource.setrlimit(resource.RLIMIT_NPROC, (2000, 2000))
        pid = spawn.forked("/bin/sh", ["sh", "-c", script], ENV, [null, null, null])
        until(lambda: len(spawn._descendants(pid)) > 20, "it forks")
        spawn.kill_tree(pid)
        os.waitpid(pid, 0)
        until(lambda: not _alive_here(), "nothing is left")

    namespaces.inside(act, PIDS)


def _alive_here() -> list[int]:
    return [pid for pid in spawn._parents() if pid != 1 and alive(pid)]


def test_a_session_is_told_and_nobody_else() -> None:
    script = "trap 'exit 7' USR1; sleep 600 & echo; wait"
    read, write = os.pipe()
    pids = []
    for _ in range(2):
        pids.append(os.fork())
        if not pids[-1]:
            os.setsid()
            os.dup2(write, 1)
            os.execvpe("sh", ["sh", "-c", script], ENV)
    os.close(write)
    told, other = pids
    for _ in range(2):
        assert os.read(read, 1) == b"\n", "both have begun"
    spawn.tell_session(told, signal.SIGUSR1)
    assert os.waitstatus_to_exitcode(os.waitpid(told, 0)[1]) == 7
    assert alive(other)
    for leader in pids:
        spawn.tell_session(leader, signal.SIGKILL)
    os.waitpid(other, 0)
    os.close(read)

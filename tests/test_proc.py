"""How the host starts programs: nothing inherited by accident, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from paddock import proc
from paddock.errors import Unavailable
from tests.fs.children import in_child

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENV = {"PATH": "/usr/bin:/bin"}


def run(
    *argv: str, stdin: bytes | None = None, timeout_s: float = 30, keep: int = 1000, cwd: str = "/"
) -> proc.Finished:
    return proc.run(list(argv), env=ENV, cwd=cwd, timeout_s=timeout_s, stdin=stdin, output_bytes_max=keep)


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *words]


@pytest.fixture(autouse=True)
def no_descriptor_and_no_child_stays() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# -- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "stdout", "stderr"),
    [
        ("echo out; echo err >&2; exit 3", 3, b"out\n", b"err\n"),
        ("kill -TERM $$", 143, b"", b""),
        ("cat", 0, b"", b""),
        ("pwd; test -t 0 || echo no terminal", 0, b"/\nno terminal\n", b""),
    ],
)
def test_a_program_ends_with_its_code_and_output(script: str, code: int, stdout: bytes, stderr: bytes) -> None:
    assert run("sh", "-c", script) == proc.Finished(code=code, stdout=stdout, stderr=stderr)


def test_words_are_not_read_by_a_shell(tmp_path: Path) -> None:
    word = f"$(touch {tmp_path}/x); *\n"
    assert run("printf", "%s", word).stdout == word.encode()
    assert os.listdir(tmp_path) == []


def test_stdin_is_fed_whole_even_if_output_comes_meanwhile() -> None:
    data = os.urandom(3_000_000)
    assert run("cat", stdin=data, keep=5_000_000).stdout == data


def test_a_program_that_does_not_read_its_stdin_is_no_problem() -> None:
    assert run("true", stdin=b"x" * 3_000_000).code == 0


def test_output_over_the_limit_is_dropped_and_told() -> None:
    done = run("sh", "-c", "head -c 3000000 /dev/zero; echo end >&2", keep=1000)
    assert (done.code, len(done.stdout), done.stderr, done.truncated) == (0, 1000, b"end\n", True)
    assert not run("head", "-c", "1000", "/dev/zero", keep=1000).truncated


def test_the_environment_is_exactly_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    assert run("env").stdout == b"PATH=/usr/bin:/bin\n"


def test_no_descriptor_of_ours_is_inherited() -> None:
    fd = os.dup(0)
    os.set_inheritable(fd, True)
    try:
        assert run("ls", "/proc/self/fd").stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing itself
    finally:
        os.close(fd)


def test_a_timeout_kills_the_whole_group() -> None:
    began = time.monotonic()
    done = run("sh", "-c", "sleep 987 & echo $!; wait", timeout_s=0.5)
    assert done.timed_out
    assert done.code == 137
    assert time.monotonic() - began < 10
    assert_gone(int(done.stdout))


def test_a_grandchild_that_keeps_the_output_open_is_not_waited_for() -> None:
    began = time.monotonic()
    done = run("sh", "-c", "sleep 987 & echo $!")
    assert (done.code, done.timed_out) == (0, False)
    assert time.monotonic() - began < 10
    assert_gone(int(done.stdout))


def assert_gone(pid: int) -> None:
    """Wait until an orphan that was killed has been reaped by init."""
    deadline = time.monotonic() + 10
    while proc.identity(pid) is not None:
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.01)


def test_an_interrupt_kills_the_group_too() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            run("sleep", "987")
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (["no-such-program"], "/", "cannot start 'no-such-program': No such file"),
        (["/etc/passwd"], "/", "cannot start '/etc/passwd': Permission denied"),
        (["true"], "/no/such/directory", "cannot start '/no/such/directory': No such file"),
    ],
)
def test_what_cannot_be_started_is_named(argv: list[str], cwd: str, said: str) -> None:
    with pytest.raises(Unavailable, match=said) as caught:
        run(*argv, cwd=cwd)
    assert caught.value.hint


# -- spawn_daemon -----------------------------------------------------------------------------------------------------

REPORT = """
import os, sys
ready = int(sys.argv[1])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("cwd", os.getcwd(), "umask", status["Umask"].strip(), "ignored", int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24),
      "blocked", int(status["SigBlk"], 16), "leader", os.getsid(0) == os.getpid(), flush=True)
print("env", open("/proc/self/environ").read().split("\\0"), flush=True)
print("fds", *sorted(os.listdir("/proc/self/fd"), key=int), "stdin", os.readlink("/proc/self/fd/0"), flush=True)
os.write(ready, b"%d" % os.getpid())
os.close(ready)
sys.stdin.buffer.raw.close()
import signal; signal.pause()
"""


@contextlib.contextmanager
def daemon(log: Path, code: str = REPORT) -> Iterator[int]:
    reader, writer = os.pipe()
    pid = proc.spawn_daemon(python(code, str(writer)), env=ENV, log_path=str(log), ready_fd=writer)
    os.close(writer)
    try:
        assert int(os.read(reader, 100)) == pid
        assert os.read(reader, 1) == b""  # nobody else holds it
        yield pid
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        assert_gone(pid)


def test_a_daemon_starts_clean_and_tells_when_it_is_ready(tmp_path: Path) -> None:
    extra = os.dup(0)
    os.set_inheritable(extra, True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        with daemon(tmp_path / "log"):
            lines = (tmp_path / "log").read_text().splitlines()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.close(extra)
    assert lines[0] == "cwd / umask 0077 ignored 0 blocked 0 leader False"
    assert lines[1] == "env ['PATH=/usr/bin:/bin', '']"
    fds = lines[2].split()
    assert fds[1:4] == ["0", "1", "2"]
    assert len(fds) == 8  # the ready descriptor, and the listing itself
    assert fds[-1] == "/dev/null"


def test_a_daemon_is_not_our_child_nor_of_our_session(tmp_path: Path) -> None:
    with daemon(tmp_path / "log") as pid:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        assert os.getsid(pid) != os.getsid(0)
        assert os.getpgid(pid) != os.getpgrp()


def test_a_daemon_outlives_its_caller_and_the_callers_terminal(tmp_path: Path) -> None:
    """The caller is the leader of a session with a terminal, as a login shell is, and dies."""
    master, slave = os.openpty()
    reader, writer = os.pipe()
    code = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY); from paddock import proc; "
    code += "proc.spawn_daemon(sys.argv[2:], env={}, log_path=sys.argv[1], ready_fd=int(sys.argv[-1]))"
    report = python(REPORT, str(writer))
    caller = subprocess.Popen(
        [sys.executable, "-c", code, f"{tmp_path}/log", *report],
        stdin=slave,
        pass_fds=[writer],
        start_new_session=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(writer)
    os.close(slave)
    assert caller.wait(30) == 0
    os.close(master)
    pid = int(os.read(reader, 100))
    os.close(reader)
    known = proc.identity(pid)
    assert known
    assert proc.same(known)
    os.kill(pid, signal.SIGKILL)
    assert_gone(pid)


def test_the_log_is_appended_to_and_private(tmp_path: Path) -> None:
    for _ in range(2):
        with daemon(tmp_path / "log"):
            pass
    assert (tmp_path / "log").read_text().count("cwd / umask") == 2
    assert (tmp_path / "log").stat().st_mode & 0o7777 == 0o600


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    (tmp_path / "log").symlink_to("precious")
    with pytest.raises(Unavailable, match="cannot write the log"):
        proc.spawn_daemon(["true"], env=ENV, log_path=f"{tmp_path}/log")


@pytest.mark.parametrize(
    ("program", "said"), [("no-such-program", "No such file"), ("/etc/passwd", "Permission denied")]
)
def test_a_daemon_or_child_that_cannot_start_is_named(tmp_path: Path, program: str, said: str) -> None:
    with pytest.raises(Unavailable, match=f"cannot start '{program}': {said}"):
        proc.spawn_daemon([program], env=ENV, log_path=f"{tmp_path}/log")
    with pytest.raises(Unavailable, match=f"cannot start '{program}': {said}"):
        proc.spawn_child([program], env=ENV, pass_fds={})


# -- spawn_on_terminal -------------------------------------------------------------------------------------------------


def test_a_child_on_a_terminal_has_it_as_its_own_and_hears_its_keys() -> None:
    near, far = os.openpty()
    code = "import os; os.close(os.open('/dev/tty', os.O_RDWR)); print(os.tcgetpgrp(0) == os.getpid(), flush=True); "
    with open(near, "rb+", buffering=0) as terminal:
        argv = python(
            f"{code} import signal, time; signal.signal(2, signal.SIG_DFL); print('on', flush=True); time.sleep(60)"
        )
        with proc.spawn_on_terminal(argv, env=ENV, terminal=far) as child:
            os.close(far)
            said = b""
            while b"on" not in said:
                said += terminal.read(4096)
            assert b"True" in said
            terminal.write(b"\x03")
            assert child.wait(10) == 130


# -- spawn_child ------------------------------------------------------------------------------------------------------


OPEN_ONES = """
import os, sys
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
for fd in sys.argv[1:]: os.write(int(fd), fd.encode())
os.write(int(sys.argv[1]), f" {[fd for fd in range(1000) if is_open(fd)]}".encode())
"""


def test_a_child_has_the_named_descriptors_at_their_numbers_and_no_others() -> None:
    """Every number is taken by another of them, so an order of plain dup2 calls would lose some."""
    pipes = {writer: reader for reader, writer in (os.pipe() for _ in range(4))}
    numbers = sorted(pipes)
    wanted = dict(zip(numbers, numbers[1:] + numbers[:1], strict=True))
    with proc.spawn_child(python(OPEN_ONES, *map(str, numbers)), env=ENV, pass_fds=wanted) as child:
        assert child.wait(30) == 0
    said = {number: os.read(pipes[source], 1000).decode() for number, source in wanted.items()}
    for fd in (*pipes, *pipes.values()):
        os.close(fd)
    first = numbers[0]
    assert said[first] == f"{first} {[0, 1, 2, *numbers]}"
    assert [said[number] for number in numbers[1:]] == [str(number) for number in numbers[1:]]


def test_standard_streams_are_empty_unless_named() -> None:
    reader, writer = os.pipe()
    code = "import os\nfor n in (0, 1, 2): os.write(3, os.readlink(f'/proc/self/fd/{n}').encode() + b' ')"
    with proc.spawn_child(python(code), env=ENV, pass_fds={3: writer}) as child:
        assert child.wait(30) == 0
    os.close(writer)
    assert os.read(reader, 100) == b"/dev/null /dev/null /dev/null "
    os.close(reader)


def test_a_standard_stream_of_ours_can_be_named() -> None:
    reader, writer = os.pipe()
    kept = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        with proc.spawn_child(python("import os; os.write(1, b'x')"), env=ENV, pass_fds={1: 2}) as child:
            assert child.wait(30) == 0
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert os.read(reader, 100) == b"x"
    os.close(reader)


def test_a_child_is_waited_for_signalled_and_killed() -> None:
    with proc.spawn_child(["sleep", "987"], env=ENV, pass_fds={}) as child:
        assert child.poll() is None
        assert child.wait(0.01) is None
        assert repr(child) == f"<Child {child.pid} running>"
        assert os.getsid(child.pid) == child.pid
        assert child.fileno() >= 0
        child.signal(signal.SIGTERM)
        assert child.wait(30) == 143
        assert repr(child) == f"<Child {child.pid} ended 143>"
        child.signal(signal.SIGTERM)
    with proc.spawn_child(["sleep", "987"], env=ENV, pass_fds={}) as child:
        pass
    assert proc.identity(child.pid) is None
    child.close()


@pytest.mark.parametrize("way", ["run", "spawn_child"])
def test_running_out_of_descriptors_anywhere_is_told_and_leaves_nothing(way: str) -> None:
    def start() -> None:
        if way == "run":
            run("true")
        else:
            proc.spawn_child(["sleep", "987"], env=ENV, pass_fds={}).close()

    def act() -> None:
        start()  # what is imported on the way needs descriptors too
        before = os.listdir("/proc/self/fd")
        outcomes = []
        for free in range(12):
            held = hold_all_but(free)
            try:
                start()
                outcomes.append("done")
            except Unavailable as error:
                assert "Too many open files" in error.message  # noqa: PT017 - the raise is optional here
                outcomes.append("told")
            for fd in held:
                os.close(fd)
            assert os.listdir("/proc/self/fd") == before
            with pytest.raises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
        assert outcomes[0] == "told"
        assert outcomes[-1] == "done"

    in_child(act)


def hold_all_but(free: int) -> list[int]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.dup(0))
    for fd in held[len(held) - free :]:
        os.close(fd)
    return held[: len(held) - free]


# -- identity ---------------------------------------------------------------------------------------------------------


def test_a_process_is_the_same_until_it_ends() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
    known = proc.identity(pid)
    assert known is not None
    assert known[0] == pid
    assert proc.same(known)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not proc.same(known), "a zombie is no process"
    os.waitpid(pid, 0)
    assert proc.identity(pid) is None
    assert not proc.same(known)


def test_another_process_with_the_pid_is_not_the_same() -> None:
    known = proc.identity(os.getpid())
    assert known is not None
    assert proc.same(known)
    assert not proc.same((known[0], known[1] - 1))


@pytest.mark.parametrize("name", ["a) Z 1 2", "((", "x y", ") ) )", "\n) S 1 "])
def test_a_name_chosen_to_confuse_does_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.symlink_to("/bin/sleep")
    with proc.spawn_child([str(path), "987"], env=ENV, pass_fds={}) as child:
        with open(f"/proc/{child.pid}/comm", encoding="utf-8") as file:
            assert file.read() == name + "\n"
        known = proc.identity(child.pid)
        assert known is not None
        own = proc.identity(os.getpid())
        assert own is not None
        assert known[1] >= own[1]


@pytest.mark.parametrize("pid", [0, -1, 1 << 30])
def test_there_is_no_such_process(pid: int) -> None:
    assert proc.identity(pid) is None


def test_the_boot_has_one_name() -> None:
    assert proc.boot_id() == proc.boot_id()
    assert len(proc.boot_id()) == 36


def test_importing_it_does_not_load_what_only_starting_needs() -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:]; import paddock.proc; print(*sys.modules)"
    done = subprocess.run(python(code, *sys.path), capture_output=True, text=True, check=True, timeout=30)
    assert not {"subprocess", "select", "asyncio", "socket"} & set(done.stdout.split())


def test_a_program_has_our_umask_unless_another_is_given(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        for umask, mode in ((-1, 0o600), (0o022, 0o644)):
            proc.run(["/usr/bin/touch", f"{tmp_path}/{mode:o}"], env={}, cwd="/", timeout_s=10, umask=umask)
            assert (tmp_path / f"{mode:o}").stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_process_knows_what_it_takes_up() -> None:
    before = proc.own_weight()
    with open(os.devnull), open(os.devnull):
        assert proc.own_weight().open_files == before.open_files + 2
    assert 1 << 20 < before.memory_bytes < 4 << 30

"""The only place that starts processes on the host: argument lists, an explicit environment, chosen descriptors.

Nothing here goes through a shell, and nothing is inherited by accident. A process is known by pid and start time,
because pids are used again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass

from paddock import trampoline
from paddock.errors import Unavailable
from paddock.limits import DRAIN_AFTER_EXIT_S, MIB, START_TIMEOUT_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from typing import Self

_CHUNK_BYTES = 65536
_STDERR = 2
_STARTTIME_FIELD = 19  # field 22 of proc(5), counted from the state that follows the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a program ended; `code` is 128+n for signal n, as shells count."""

    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False  # output over the limit was read and dropped


def run(
    argv: list[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    timeout_s: float,
    stdin: bytes | None = None,
    output_bytes_max: int = MIB,
    owner: tuple[int, ...] | None = None,
    umask: int = -1,
) -> Finished:
    """Run a program to its end, or kill it; either way its whole process group is gone afterwards.

    It has no terminal. `output_bytes_max` holds for stdout and stderr each; `umask` is ours unless given. With `owner`,
    a user and a group, root has it run as those and in no other group. Unavailable if it cannot be started.
    """
    import subprocess

    with _translated(argv), _Talk(stdin or b"", output_bytes_max) as talk:
        reader, writer, errors = talk.theirs
        user, group = owner or (None, None)
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=reader,
            stdout=writer,
            stderr=errors,
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=() if owner else None,
            umask=umask,
        )
        try:
            timed_out = not talk.until(process.pid, time.monotonic() + timeout_s)
        finally:
            _end_group(process)
    return Finished(
        code=_shell_code(process.returncode),
        stdout=talk.kept("stdout"),
        stderr=talk.kept("stderr"),
        timed_out=timed_out,
        truncated=talk.truncated,
    )


def spawn_daemon(argv: list[str], *, env: Mapping[str, str], log_path: str, ready_fd: int | None = None) -> int:
    """Start a program that outlives us and our terminal, and return its pid; it is nobody's child but init's.

    cwd is /, umask 077, stdin empty, output appended to the log; of our descriptors it has `ready_fd` alone, under the
    same number.
    """
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"cannot write the log {log_path!r}: {error.strerror}", code="log") from error
    try:
        fds = {1: log, 2: log} if ready_fd is None else {1: log, 2: log, ready_fd: ready_fd}
        with _translated(argv):
            process, pid = _bounce("detach", argv, env, fds)
        process.wait()
    finally:
        os.close(log)
    return pid


def spawn_child(argv: list[str], *, env: Mapping[str, str], pass_fds: Mapping[int, int]) -> Child:
    """Start a child in a session of its own, with cwd / and umask 077.

    `pass_fds` says which of our descriptors it has under which number: {3: ours} makes ours its 3. 0, 1 and 2 are
    /dev/null unless named, everything else is closed.
    """
    return _child("stay", argv, env, pass_fds)


def spawn_on_terminal(argv: list[str], *, env: Mapping[str, str], terminal: int) -> Child:
    """Start a child whose own terminal is `terminal`, the far end of a pty; cwd is / and umask 077."""
    return _child("terminal", argv, env, {0: terminal, 1: terminal, 2: terminal})


def _child(mode: str, argv: list[str], env: Mapping[str, str], fds: Mapping[int, int]) -> Child:
    with _translated(argv):
        process, _ = _bounce(mode, argv, env, fds)
        try:
            return Child(process)
        except BaseException:
            _end_group(process)
            raise


class Child:
    """A running child. Its fileno() turns readable when it ends; leaving the context kills it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self.pid = process.pid

    def __repr__(self) -> str:
        code = self.poll()
        return f"<Child {self.pid} {'running' if code is None else f'ended {code}'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._pidfd

    def poll(self) -> int | None:
        """The exit code if it has ended, 128+n for signal n."""
        code = self._process.poll()
        return None if code is None else _shell_code(code)

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None if it still runs after `timeout_s`."""
        if self.poll() is None:
            _readable(self._pidfd, timeout_s)
        return self.poll()

    def signal(self, number: int) -> None:
        """Send a signal; a child that has ended takes no notice."""
        self._process.send_signal(number)

    def close(self) -> None:
        if self._pidfd < 0:
            return
        self._process.kill()
        self._process.wait()
        os.close(self._pidfd)
        self._pidfd = -1


def identity(pid: int) -> tuple[int, int] | None:
    """(pid, start time in clock ticks since boot) of a live process; None if there is none or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold spaces and parentheses; what follows the last one is numbers.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in {b"Z", b"X"}:
        return None
    return pid, int(fields[_STARTTIME_FIELD])


def same(known: tuple[int, int]) -> bool:
    """Whether the process known by its identity still runs. Compare boot_id() too for one that was written down."""
    return identity(known[0]) == known


def boot_id() -> str:
    """A word that changes with every boot of this machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    open_files: int
    memory_bytes: int  # its own, and its share of what it shares


def own_weight() -> Weight:
    """What this process takes up."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        memory_kib = next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    return Weight(open_files=len(os.listdir("/proc/self/fd")) - 1, memory_bytes=memory_kib * 1024)


class _Talk:
    """The streams of a process: feeds its stdin and keeps what comes back, until it ends and its pipes are empty.

    The pipes are made here because Popen loses some of its own when there are no more descriptors to be had.
    """

    def __init__(self, stdin: bytes, keep_bytes: int) -> None:
        self._rest = memoryview(stdin)
        self._keep_bytes = keep_bytes
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._ours: dict[int, str] = {}  # our descriptors and what each is for
        self.theirs: list[int] = []  # stdin, stdout and stderr of the process
        self.truncated = False

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (*self.theirs, *self._ours):
            os.close(fd)

    def _open(self) -> None:
        if self._rest:
            reader, writer = os.pipe()
            self.theirs.append(reader)
            self._ours[writer] = "stdin"
        else:
            self.theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for name in self._kept:
            reader, writer = os.pipe()
            self.theirs.append(writer)
            self._ours[reader] = name
        for fd in self._ours:
            os.set_blocking(fd, False)

    def until(self, pid: int, deadline: float) -> bool:
        """Whether the process ended before the deadline."""
        import select

        while self.theirs:
            os.close(self.theirs.pop())
        self._ours[os.pidfd_open(pid)] = "exit"
        poll = select.poll()
        for fd, name in self._ours.items():
            poll.register(fd, select.POLLOUT if name == "stdin" else select.POLLIN)
        ended = False
        while {*self._ours.values()} - {"stdin"} and (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000):
                if self._move(fd):
                    continue
                poll.unregister(fd)
                os.close(fd)
                if self._ours.pop(fd) == "exit":
                    ended = True
                    # A grandchild may hold the pipes open for ever; what is already in them is still read.
                    deadline = min(deadline, time.monotonic() + DRAIN_AFTER_EXIT_S)
        return ended

    def _move(self, fd: int) -> bool:
        """Move some bytes; False when this descriptor has done its work."""
        name = self._ours[fd]
        try:
            if name == "stdin":
                self._rest = self._rest[os.write(fd, self._rest[:_CHUNK_BYTES]) :]
                return bool(self._rest)
            return name != "exit" and self._keep(name, os.read(fd, _CHUNK_BYTES))
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False

    def _keep(self, name: str, data: bytes) -> bool:
        room = self._keep_bytes - len(self._kept[name])
        self.truncated |= len(data) > room
        self._kept[name] += data[:room]
        return bool(data)

    def kept(self, name: str) -> bytes:
        return bytes(self._kept[name])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    import signal

    # Before the wait: until the leader is reaped no other group can have its number.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _bounce(
    mode: str, argv: list[str], env: Mapping[str, str], fds: Mapping[int, int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a program through trampoline.py; returns our child and the pid of the program once it runs."""
    import subprocess

    null = subprocess.DEVNULL
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as report, contextlib.ExitStack() as ours:
        ours.callback(os.close, writer)
        moves = {wanted: _above_standard(source, ours) for wanted, source in fds.items()}
        text = ",".join(f"{source}:{wanted}" for wanted, source in moves.items())
        words = [sys.executable, "-I", "-S", trampoline.__file__, mode, str(writer), text, *argv]
        keep = [writer, *moves.values()]
        process = subprocess.Popen(
            words, env=env, cwd="/", stdin=null, stdout=null, stderr=null, pass_fds=keep, start_new_session=True
        )
        ours.close()
        lines = _read_report(report.fileno())
    if len(lines) == 1:
        return process, lines[0]
    _end_group(process)
    reason = os.strerror(lines[1]) if lines else "it did not come up"
    raise _cannot_start(argv[0], reason)


def _read_report(fd: int) -> list[int]:
    deadline = time.monotonic() + START_TIMEOUT_S
    text = b""
    while _readable(fd, deadline - time.monotonic()):
        data = os.read(fd, 64)
        if not data:
            return [int(line) for line in text.split()]
        text += data
    return []


def _readable(fd: int, timeout_s: float) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0, timeout_s) * 1000))


def _above_standard(fd: int, ours: contextlib.ExitStack) -> int:
    """A number for `fd` that the child's own 0, 1 and 2 do not cover."""
    if fd > _STDERR:
        return fd
    import fcntl

    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    ours.callback(os.close, copy)
    return copy


@contextlib.contextmanager
def _translated(argv: list[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = argv[0] if error.filename is None else os.fsdecode(error.filename)
        raise _cannot_start(name, error.strerror or str(error)) from error


def _cannot_start(name: str, reason: str) -> Unavailable:
    return Unavailable(f"cannot start {name!r}: {reason}", hint="check that it is installed", code="start")


def _shell_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode

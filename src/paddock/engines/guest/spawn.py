"""Starting programs and ending whole trees of them, from inside the box."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.engines.guest.accounts import Account

_PR_SET_CHILD_SUBREAPER = 36
_LOOKS_MAX, _PAUSE_S = 256, 0.002  # some half a second, for one that the machine does not let run
_RESTING = (b"T", b"t", b"Z", b"X")
_libc = ctypes.CDLL(None, use_errno=True)
_CAUGHT = [n for n in signal.valid_signals() if n not in {signal.SIGKILL, signal.SIGSTOP}]


def resolve(name: str, path: str) -> str:
    if "/" in name:
        return name
    found = FileNotFoundError(errno.ENOENT, name)
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    raise found


def plain(program: str, argv: list[str], env: dict[str, str], inner: list[int | str]) -> int:
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    if isinstance(inner[0], str):  # opening it as the first act of a new session makes it the controlling terminal
        actions.append((os.POSIX_SPAWN_OPEN, 0, inner[0], os.O_RDWR, 0))
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    else:
        actions += [(os.POSIX_SPAWN_DUP2, int(fd), number) for number, fd in enumerate(inner)]
    return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_CAUGHT)


def forked(
    program: str,
    argv: list[str],
    env: dict[str, str],
    inner: list[int | str],
    *,
    tracked: bool = True,
    account: Account | None = None,
) -> int:
    """As plain, for a command with a deadline (`tracked`), or of another user than ours.

    With a deadline it becomes the reaper of its own descendants: whatever it starts, daemonised or not, stays below it,
    and the deadline can end all of it.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:  # the box has as many processes as it may have
        os.close(read)
        os.close(write)
        raise
    if pid == 0:
        try:
            if tracked:
                _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            os.setsid()
            signal.set_wakeup_fd(-1)
            for caught in _CAUGHT:
                signal.signal(caught, signal.SIG_DFL)
            fds = [os.open(inner[0], os.O_RDWR)] * 3 if isinstance(inner[0], str) else [int(fd) for fd in inner]
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            if account:
                account.become()
            os.execve(program, argv, env)
        except OSError as error:
            os.write(write, struct.pack("i", error.errno))
        finally:
            os._exit(127)
    os.close(write)
    failure = os.read(read, 4)
    os.close(read)
    if failure:
        os.waitpid(pid, 0)
        number = struct.unpack("i", failure)[0]
        raise OSError(number, os.strerror(number))
    return pid


def _alive() -> Iterator[tuple[int, list[bytes]]]:
    """Processes, and what the kernel says of each: its state, parent, group, session."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rsplit(b")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                yield int(name), fields


def _parents() -> dict[int, int]:
    return {pid: int(fields[1]) for pid, fields in _alive()}


def tell_session(leader: int, number: int) -> None:
    """Send a signal to all processes of a session, as far as we may."""
    for pid, fields in _alive():
        if int(fields[3]) == leader:
            try:
                os.kill(pid, number)
            except OSError:
                continue


def _descendants(root: int) -> list[int]:
    parents = _parents()
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def kill_tree(root: int) -> None:
    """End `root` and all below it. Stopped first, so that none can fork away between two looks."""
    stopped: set[int] = set()
    for _ in range(_LOOKS_MAX):
        at_rest = all(map(_is_at_rest, stopped))  # before we look: one that still runs may be in the middle of a fork
        fresh = [pid for pid in [root, *_descendants(root)] if pid not in stopped]
        if not fresh and at_rest:
            break
        if not fresh:
            time.sleep(_PAUSE_S)
        for pid in fresh:
            _send(pid, signal.SIGSTOP)
            stopped.add(pid)
    for pid in [*sorted(stopped - {root}), root]:
        _send(pid, signal.SIGKILL)


def _is_at_rest(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] in _RESTING
    except OSError:
        return True


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def others_alive() -> bool:
    return any(pid != 1 for pid in _parents())

"""Finds this user's daemon, and starts it when there is none."""

from __future__ import annotations

import json
import os
import sys
import time

from paddock import errors, fs, paths
from paddock.errors import Unavailable
from paddock.limits import DAEMON_START_TIMEOUT_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_KEPT = ("HOME", "PATH", "LANG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")  # the gateway goes out by them; no box sees them
_SILENT_MAX = 3  # daemons that ended without a word before we give up
_ANSWER_S = 1.0  # how long another daemon may take to answer before we try to start one again
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from paddock.daemon.main import main; main()"


def connect(where: paths.Paths) -> socket.socket:
    """A connection to the daemon, which is running when this returns."""
    found = find(where)
    return found if found is not None else _start(where)


def find(where: paths.Paths) -> socket.socket | None:
    """A connection to the running daemon, or None. The socket must be ours: nothing is said to somebody else's."""
    try:
        info = os.lstat(f"{where.run}/{paths.SOCKET}")
        if info.st_uid != os.getuid():
            raise Unavailable(
                f"{where.run}/{paths.SOCKET} belongs to uid {info.st_uid}, not to you",
                hint="set PADDOCK_HOME to a directory of your own",
                code="foreign-socket",
            )
        return fs.connect_unix(where.run, paths.SOCKET)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise Unavailable(f"cannot reach the daemon: {error}", hint="run `paddock doctor`", code="daemon") from error


def _start(where: paths.Paths) -> socket.socket:
    fs.make_private_dir(where.state)
    deadline = time.monotonic() + DAEMON_START_TIMEOUT_S
    silent = 0
    while time.monotonic() < deadline:
        if not _spawn(where, deadline):
            silent += 1
            if silent == _SILENT_MAX:
                raise _silent(where)
            continue
        # Ours, or another one that holds the lock: coming up, or on its way out and then we start one after all.
        patience = min(deadline, time.monotonic() + _ANSWER_S)
        while time.monotonic() < patience:
            found = find(where)
            if found is not None:
                return found
            time.sleep(0.02)
    raise _stuck(where)


def _spawn(where: paths.Paths, deadline: float) -> bool:
    """Start a daemon and hear how that went; False if it ended without a word, as one that is killed does."""
    from paddock import proc

    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        try:
            proc.spawn_daemon(
                [sys.executable, "-I", "-S", "-c", _BOOT, source, str(write)],
                env=_environment(where),
                log_path=where.daemon_log,
                ready_fd=write,
            )
        finally:
            os.close(write)
        return _await(read, deadline)
    finally:
        os.close(read)


def _environment(where: paths.Paths) -> dict[str, str]:
    kept = (*_KEPT, *_PROXIES, *(name.lower() for name in _PROXIES))
    env = {key: os.environ[key] for key in kept if key in os.environ}
    if where.home:  # chosen by the caller, perhaps not by its environment
        env["PADDOCK_HOME"] = where.home
    return env


def _await(read: int, deadline: float) -> bool:
    import select

    poll = select.poll()
    poll.register(read, select.POLLIN)
    data = b""
    while not data.endswith(b"\n"):
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        chunk = os.read(read, 65536) if ready else b""
        if not chunk:
            return False
        data += chunk
    answer = json.loads(data)
    if "error" in answer:
        raise errors.from_wire(answer["error"])
    return True


def _stuck(where: paths.Paths) -> Unavailable:
    return Unavailable(
        f"a daemon holds {where.daemon_lock} but does not answer",
        hint=f"end {fs.FileLock(where.daemon_lock).holder()}; boxes keep running",
        code="daemon-stuck",
    )


def _silent(where: paths.Paths) -> Unavailable:
    return Unavailable("the daemon did not start", hint=f"see {where.daemon_log}", code="daemon")

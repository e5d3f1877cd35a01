"""init as a program of its own, where no launcher forks it: in a container, started by an OCI runtime."""

from __future__ import annotations

import ctypes
import os
import signal

from paddock.engines.guest import init, sleep

LISTENER, READY = 3, 4
OWNER = "PADDOCK_OWNER"  # UID:GID of the box's user
LINE = "PADDOCK_LINE"  # is set where what we have is no listener, but a line (sleep.py)
_OPEN_TO_ALL = ("/run/user", "/run/lock")  # made here where /run is this kernel's own
_PR_SET_DUMPABLE, _PR_SET_NAME = 4, 15


def main() -> None:
    """Say that we are there, and be init."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, b"paddock-init", 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # commands may have our uid: they neither trace us nor read our memory
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python would end by it, and any command can send it
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.write(READY, b"1")
    if not os.read(READY, 1):
        os._exit(0)  # the keeper changed its mind
    os.closerange(READY, 64)
    uid, gid = map(int, os.environ[OWNER].split(":"))
    owner = (uid, gid) if os.geteuid() == 0 else None
    if LINE not in os.environ:
        init.serve(LISTENER, owner=owner)
    for path in _OPEN_TO_ALL:
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o1777)
    sleep.serve(LISTENER, owner)

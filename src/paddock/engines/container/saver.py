"""The saver: a process beside the keeper that keeps what the keeper drops, for one use: to have the runtime save a box.

It is in the keeper's user and pid namespaces and in a copy of its mounts, from before the keeper let go of the host's.
Nothing of the box can see it; it hears the keeper alone. What it starts has a time to end in.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import socket

from paddock.engines.guest import spawn
from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import confine, kernel, mounting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Plan = dict[str, Any]  # one of plan.Plan, as JSON

SAVE, WAKE = b"save", b"wake"
RUN_S = 120.0  # a box of some gigabytes on a slow disk
_READY = b"ready"
_SAID_BYTES = 600
_HIGH = 32  # above the numbers that its descriptors have in the runtime
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def start(plan: Plan, log: int) -> socket.socket:
    """In the keeper, while it has its capabilities; returns the way to the saver."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            kernel.unshare(kernel.CLONE_NEWNS)
            confine.close_descriptors({theirs.fileno(), log})
            theirs.send(_READY)
            _serve(theirs, plan, log)
        except OSError as error:
            theirs.send(str(error).encode())
        finally:
            os._exit(0)
    theirs.close()
    said = ours.recv(_SAID_BYTES)
    if said != _READY:
        raise OSError(errno.EIO, f"the saver did not start: {said.decode(errors='replace')}")
    return ours


def _serve(channel: socket.socket, plan: Plan, log: int) -> None:
    while True:
        word, fds, _ = receive_fds(channel, 16, 1)
        if not word:
            os._exit(0)
        try:
            if word == SAVE:
                os.mkdir(plan["image"], 0o700)
            run(plan["save"] if word == SAVE else plan["wake"], fds, log)
            answer = {"ok": True, "error": ""}
        except OSError as error:
            answer = {"ok": False, "error": str(error)}
        for fd in fds:
            os.close(fd)
        channel.send(json.dumps(answer).encode())


def run(argv: list[str], inner: list[int], log: int) -> None:
    """Start the runtime with these descriptors from 3 on, and its words in `log`; OSError when it fails."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    given: list[int | str] = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in (null, log, log, *inner)]
    pid = spawn.plain(argv[0], argv, {"PATH": _PATH, "XDG_RUNTIME_DIR": f"{mounting.ROOT}/state"}, given)
    for fd in (null, *given):
        os.close(int(fd))
    held = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(held, select.POLLIN)
    if not poll.poll(RUN_S * 1000):
        os.kill(pid, signal.SIGKILL)
    os.close(held)
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(errno.EIO, f"{os.path.basename(argv[0])} says: {said(log)}")


def said(log: int) -> str:
    size = os.fstat(log).st_size
    words = os.pread(log, _SAID_BYTES, max(0, size - _SAID_BYTES)).decode(errors="replace")
    return " ".join(words.split()) or "it said nothing"

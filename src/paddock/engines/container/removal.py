"""Remove what a container box wrote as users that only its own namespace has: the caller may not, their root there may.

Runs a program that is root of the caller's subordinate ids and of nothing else, and removes one tree.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final

from paddock import fs, proc
from paddock.engines.container import ids
from paddock.engines.process import kernel
from paddock.engines.process.warm import package_root
from paddock.errors import Unavailable

_CHANNEL: Final = 3
_PATH_BYTES: Final = 1 << 16
_READY_S: Final = 10.0
_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.engines.container.removal import main; main()"


def remove_tree(path: str) -> None:
    """As fs.remove_tree, and with the ids that a box of the caller may have had. May take long."""
    try:
        fs.remove_tree(path)
    except Unavailable:
        granted = ids.own(os.getuid(), os.getgid())
        if os.getuid() == 0 or not granted.by_tool:
            raise
        _remove_as(granted, path)
        fs.remove_tree(path)  # says what is left, if anything is


def _remove_as(granted: ids.Ids, path: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, package_root()]
        with proc.spawn_child(argv, env={"LC_ALL": "C.UTF-8"}, pass_fds={_CHANNEL: theirs.fileno()}) as child:
            theirs.close()
            ours.settimeout(_READY_S)
            if ours.recv(1):  # it is in its namespace, and has no ids yet
                ids.give(child.pid, granted)
                ours.settimeout(None)
                ours.send(os.fsencode(path))
                ours.recv(1)


def main() -> None:
    channel = socket.socket(fileno=_CHANNEL)
    kernel.unshare(kernel.CLONE_NEWUSER)
    channel.send(b"1")
    path = channel.recv(_PATH_BYTES)
    if path:
        os.setgroups([])
        try:
            fs.remove_tree(os.fsdecode(path))
        except Unavailable:
            pass  # who asked looks again
        channel.send(b"1")

"""Children in namespaces of their own, as the launcher makes them; what goes wrong in one fails the test here."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import confine, kernel
from tests.support.forks import forked

if TYPE_CHECKING:
    from collections.abc import Callable

MOUNTS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS
ALL = kernel.BOX_NAMESPACES


def spawn(act: Callable[[], None], flags: int, as_id: int = 0) -> int:
    """The pid of a child that runs `act` in new namespaces, with all capabilities there, and then ends.

    What goes wrong is said on stderr. `as_id` is the name it goes by in a new user namespace.
    """
    uid, gid = os.getuid(), os.getgid()
    whole = bool(flags & kernel.CLONE_NEWPID)  # which unshare would give to its children only
    pid = kernel.clone(flags) if whole else forked()
    if pid:
        return pid
    try:
        if not whole:
            kernel.unshare(flags)
        if flags & kernel.CLONE_NEWUSER:
            confine.write_file("/proc/self/setgroups", "deny")
            confine.write_file("/proc/self/uid_map", f"{as_id} {uid} 1")
            confine.write_file("/proc/self/gid_map", f"{as_id} {gid} 1")
        act()
        os._exit(0)
    except BaseException:  # noqa: BLE001  told on stderr; nothing of pytest may go on in here
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(1)


def inside(act: Callable[[], None], flags: int = MOUNTS, as_id: int = 0) -> None:
    """Run `act` in a child with new namespaces; its exception fails the test."""
    read, write = os.pipe2(os.O_CLOEXEC)

    def told() -> None:
        os.dup2(write, 2)
        act()

    pid = spawn(told, flags, as_id)
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        pytest.fail(said or f"the child ended with {code}", pytrace=False)


def private_mounts() -> None:
    """Mounts made from here on are seen by nobody else."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)


def own_proc() -> None:
    private_mounts()
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)

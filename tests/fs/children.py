"""Acts that need a process of their own: another uid, a mount namespace, tight limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import traceback
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ORDINARY_UID = 61234
STRANGER_UID = 61235

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_DUMPABLE = 4
_UNABLE = 77

libc = ctypes.CDLL(None, use_errno=True)


class Unable(Exception):
    """This machine does not allow what the test needs."""


def in_child(act: Callable[[], None]) -> None:
    """Run `act` in a forked child; its exception fails the test here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_and_exit(act, writer)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == _UNABLE:
        pytest.skip(said)
    assert code == 0, said or f"the child ended with {code}"


def as_ordinary_user(act: Callable[[], None]) -> None:
    """Run `act` in a child that is not root."""

    def switch() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(ORDINARY_UID)
            os.setuid(ORDINARY_UID)
            libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self would stay root's
        act()

    in_child(switch)


def in_mount_namespace(act: Callable[[], None]) -> None:
    """Run `act` in a child whose mounts are its own."""

    def switch() -> None:
        uid, gid = os.geteuid(), os.getegid()
        if libc.unshare(_CLONE_NEWNS if uid == 0 else _CLONE_NEWNS | _CLONE_NEWUSER) != 0:
            raise Unable("this machine gives us no mount namespace")
        if uid != 0:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"0 {uid} 1")
            _write("/proc/self/gid_map", f"0 {gid} 1")
        mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        act()

    in_child(switch)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    done = libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def bind(source: str, target: str) -> None:
    mount(source, target, "", _MS_BIND)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def allow_descriptors(more: int) -> None:
    """Let this process open only so many descriptors on top of those it has."""
    highest = max(int(number) for number in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more + 1, highest + more + 1))
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.dup(0))
    for fd in held[len(held) - more :]:
        os.close(fd)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _run_and_exit(act: Callable[[], None], writer: int) -> None:
    code, said = 0, ""
    try:
        act()
    except (Unable, pytest.skip.Exception) as reason:
        code, said = _UNABLE, str(reason)
    except BaseException:  # noqa: BLE001 - told to the parent
        code, said = 1, traceback.format_exc()
    os.write(writer, said.encode("utf-8", "replace")[:60000])
    os._exit(code)

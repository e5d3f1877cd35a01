"""Landlock: the second layer over files, for the day a mount of the box is wrong.

Everything is denied by default; the rules give back reading everywhere and writing where the plan says. TCP is left
alone, the sealed network decides there. Old kernels know less: before ABI 2 no file moves between directories, before 3
`truncate` is not stopped, before 6 neither signals nor abstract sockets, before 9 no socket of the host in a workspace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SCOPES = 0b11  # abstract sockets and signals stay inside the box

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV, _RESOLVE_UNIX = 1 << 14, 1 << 15, 1 << 16
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # what a rule on a file may carry
_RIGHTS_SINCE = ((1, 13), (2, 14), (3, 15), (5, 16), (9, 17))  # (abi, how many of the rights it knows)
_SCOPES_SINCE = 6
# Handled, so denied, and given back nowhere: device nodes, and sockets that were made outside the box
_NEVER = _MAKE_CHAR | _MAKE_BLOCK | _RESOLVE_UNIX

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def abi() -> int:
    """Ask the kernel which Landlock it has; 0 means none, or switched off."""
    version = _syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, int(version))


def restrict(writable: list[str], abi: int) -> None:
    """Let this thread and its future children write only beneath `writable` (and into existing files of /dev, /proc).

    Raises OSError when any rule cannot be made; the caller must then give up the box.
    """
    if abi < 1:
        raise OSError(errno.EOPNOTSUPP, "this kernel has no Landlock")
    known = (1 << max(count for since, count in _RIGHTS_SINCE if abi >= since)) - 1
    ruleset = _create(known, _SCOPES if abi >= _SCOPES_SINCE else 0)
    try:
        _allow(ruleset, "/", known & _READ)
        for path in ("/dev", "/proc"):
            _allow(ruleset, path, known & (_READ | _FILE))
        for path in writable:
            _allow(ruleset, path, known & ~_NEVER)
        _call("restrict", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _create(handled: int, scoped: int) -> int:
    attributes = struct.pack("=QQQ", handled, 0, scoped) if scoped else struct.pack("=Q", handled)
    size = ctypes.c_size_t(len(attributes))
    return _call("create a ruleset", _CREATE_RULESET, attributes, size, ctypes.c_uint32(0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):  # following it could open a place nobody planned
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if not stat.S_ISDIR(mode):
            rights &= _FILE
        rule = struct.pack("=Qi", rights, fd)
        _call(f"allow {path}", _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(fd)


def _call(what: str, number: int, *args: object) -> int:
    result = int(_syscall(ctypes.c_long(number), *args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock could not {what}: {os.strerror(code)}")
    return result

"""The kernel calls a box is made of, over libc: thin, checked, and nothing else.

Imported by the launcher, which is forked for every box: only light modules here.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

_MACHINE = os.uname().machine
# Calls that libc does not wrap. Those from 400 on have the same number on every architecture.
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "keyctl": 250, "setresuid": 117, "setresgid": 119, "capset": 126},
    "aarch64": {"clone": 220, "pivot_root": 41, "keyctl": 219, "setresuid": 147, "setresgid": 149, "capset": 91},
}
_FSCONFIG, _FSPICK, _PIDFD_GETFD = 431, 433, 438
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 428, 429, 436, 437, 442
_RESOLVE_STRICTLY = 0x02 | 0x04 | 0x08  # no magic links, no symlinks, beneath

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
BOX_NAMESPACES = (
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
)

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
ATTR_IDMAP = 0x00100000

DESCRIPTORS_MAX = 253  # SCM_RIGHTS carries no more in one message

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_FROM_EMPTY, _MOVE_TO_EMPTY = 0x04, 0x40
_FSPICK_CLOEXEC, _FSPICK_EMPTY_PATH = 0x01, 0x08
_NS_GET_USERNS, _NS_GET_NSTYPE = 0xB701, 0xB703
_STATX_BYTES, _STATX_ATTRIBUTES_AT, _STATX_ATTR_MOUNT_ROOT = 256, 8, 0x2000
_RECONFIGURE = 7

_PR_SET_DUMPABLE, _PR_SET_NAME, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 15, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 28, 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
_EINVAL = 22

_libc = ctypes.CDLL(None, use_errno=True)
# A raw clone must keep the GIL, or the child would come up without it.
_locked = ctypes.PyDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _call(name: str, *args: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(_NUMBERS[_MACHINE][name]), *args), name)


# -- processes and namespaces ------------------------------------------------------------------------------------------


def clone(flags: int) -> int:
    """Fork into new namespaces; returns 0 in the child. The caller has one thread."""
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    zero = ctypes.c_long(0)
    pid: int = _locked.syscall(ctypes.c_long(_NUMBERS[_MACHINE]["clone"]), ctypes.c_long(flags | 17), zero, zero, zero)
    number = ctypes.get_errno()
    if pid == 0:
        api.PyOS_AfterFork_Child()
        return 0
    api.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def join(namespace: int, kind: int) -> None:
    _check(_libc.setns(namespace, kind), "setns")


def owner_of_mounts(namespace: int) -> int:
    """The user namespace that owns a mount namespace, which must be below our own."""
    if fcntl.ioctl(namespace, _NS_GET_NSTYPE) != CLONE_NEWNS:
        raise OSError(_EINVAL, "not a mount namespace")
    return fcntl.ioctl(namespace, _NS_GET_USERNS)


def become(uid: int, gid: int) -> None:
    """Set all ids at once, without libc's thread signalling."""
    _call("setresgid", gid, gid, gid)
    _call("setresuid", uid, uid, uid)


def set_dumpable(*, dumpable: bool) -> None:
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0), "prctl dumpable")


def drop_all_capabilities() -> None:
    drop_capabilities(0)


def drop_capabilities(keep: int) -> None:
    """All but those in the mask `keep`, which must be among the first 32."""
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")
    for capability in range(64):
        if keep >> capability & 1:
            continue
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() == _EINVAL:  # past the last one this kernel knows
                break
            _check(-1, f"drop capability {capability}")
    _call("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), struct.pack("=6I", keep, keep, 0, 0, 0, 0))


def set_no_new_privs() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def join_new_session_keyring() -> None:
    _call("keyctl", _KEYCTL_JOIN_SESSION_KEYRING, None)


def close_all_but(keep: set[int]) -> None:
    low = 0
    for fd in [*sorted(keep), 0xFFFFFFFF]:
        if fd > low:
            high = fd if fd == 0xFFFFFFFF else fd - 1
            _check(_libc.syscall(_CLOSE_RANGE, ctypes.c_uint(low), ctypes.c_uint(high), 0), "close_range")
        low = fd + 1


def take_descriptor(process: int, number: int) -> int:
    """A descriptor of our own for what another process, by its pidfd, has open."""
    return _check(_libc.syscall(_PIDFD_GETFD, process, number, 0), "pidfd_getfd")


def set_hostname(name: str) -> None:
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)), "sethostname")


def set_title(title: bytes) -> None:
    """Overwrite our own argv, so that no path or option of ours shows in a box's /proc/1/cmdline."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rsplit(b")", 1)[1].split()
    start, end = int(fields[45]), int(fields[46])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title, min(len(title), end - start - 1))
    _libc.prctl(_PR_SET_NAME, title, 0, 0, 0)


def set_file_ids(uid: int, gid: int) -> None:
    """Whose files are that we make from now on; what we may do to others' stays."""
    _check(_libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP if uid else 0, 0, 0, 0), "securebits")
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)


def trim_heap() -> None:
    _libc.malloc_trim(0)


# -- mounts ------------------------------------------------------------------------------------------------------------


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    raw = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(raw, f"mount {kind or 'change'} {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def open_tree(path: str, *, recursive: bool = True) -> int:
    """A detached copy of the mount at `path`, not following a symlink in its last component."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | 0x100 | (_AT_RECURSIVE if recursive else 0)
    return _check(_libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags), f"open_tree {path}")


def clone_tree(fd: int, *, recursive: bool = False) -> int:
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return _check(_libc.syscall(_OPEN_TREE, fd, b"", flags), "open_tree")


def set_mount(fd: int, attributes: int, *, recursive: bool = True, userns: int = 0) -> None:
    attr = _MountAttr(attributes, 0, 0, userns)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    _check(_libc.syscall(_MOUNT_SETATTR, fd, b"", flags, ctypes.byref(attr), 32), "mount_setattr")


def move_mount(fd: int, target_fd: int) -> None:
    flags = _MOVE_FROM_EMPTY | _MOVE_TO_EMPTY
    _check(_libc.syscall(_MOVE_MOUNT, fd, b"", target_fd, b"", flags), "move_mount")


def pick_file_system(fd: int) -> int:
    """A handle on the file system mounted at `fd`, for `look_again`."""
    return _check(_libc.syscall(_FSPICK, fd, b"", _FSPICK_CLOEXEC | _FSPICK_EMPTY_PATH), "fspick")


def look_again(picked: int) -> None:
    """Let a file system forget what names it has looked up, but for what is open: a remount that changes nothing.

    Whoever owns the user namespace in which it was mounted may do it, from outside too.
    """
    zero = ctypes.c_long(0)
    _check(_libc.syscall(_FSCONFIG, picked, _RECONFIGURE, None, None, zero), "fsconfig")


def is_mount_root(fd: int) -> bool:
    """Whether something is mounted exactly there."""
    found = ctypes.create_string_buffer(_STATX_BYTES)
    _check(_libc.statx(fd, b"", _AT_EMPTY_PATH, 0, found), "statx")
    attributes: int = struct.unpack_from("=Q", found, _STATX_ATTRIBUTES_AT)[0]
    return bool(attributes & _STATX_ATTR_MOUNT_ROOT)


def open_beneath(root: int, path: str) -> int:
    """O_PATH of what exists at `path` below `root` without a symlink on the way; -1 when it is not that simple."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE_STRICTLY)
    fd: int = _libc.syscall(_OPENAT2, root, os.fsencode(path).lstrip(b"/") or b".", how, len(how))
    return fd


def pivot_root_here() -> None:
    """Make the current directory the root and let go of the old one."""
    _call("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")

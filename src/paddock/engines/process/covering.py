"""Puts a cover back over names that the host has replaced under a running box. Runs once, in a process of its own.

Theory. A mount lies over a file, not over a name. When a program outside renames another file over the name, as every
editor does to save, the kernel takes the mount away in every namespace, and the box sees the new file. No process of
the box can mend that, and none outside can mount into it: so a child of the launcher enters the box's user namespace A
and its mount namespace, looks at each name as the box would find it, and does again what the start did where that is
undone. It stays outside the box's pid namespace and is not dumpable: nothing in the box can name or touch it.

Ordinary users have to make detached copies of host directories in namespaces of their own: that is `give_trees`.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat

from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import kernel, mounting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.engines.process.mounting import Operation

MESSAGE_BYTES = 1 << 20
SECONDS = 10  # then the kernel ends us: a file system that hangs must not gather processes
_LIMIT = "/proc/sys/user/max_mnt_namespaces"  # the box has 0, and each detached tree counts as one
_ROOM, _NO_ROOM = b"16", b"0"


def restore(channel: socket.socket) -> dict[str, Any]:
    """Read operations, and descriptors of the mount namespace and of trees; cover again what is not covered.

    `covered`, `gone` and `links` are numbers of operations: done again, of names that do not exist, and of names that
    are symbolic links now. `wanting` are those that have lost a tree they were not given now.
    """
    request, (namespace, *trees) = _receive(channel)
    given = dict(zip(request["trees"], trees, strict=True))
    limit = _enter(namespace)
    try:
        os.write(limit, _ROOM)
        return _restore(request["mounts"], given)
    finally:
        os.pwrite(limit, _NO_ROOM, 0)


def give_trees(channel: socket.socket) -> None:
    """Detached copies of the mounts at some paths, from a mount namespace that we may do this in."""
    request, _ = _receive(channel)
    trees = [kernel.open_tree(path) for path in request["paths"]]
    socket.send_fds(channel, [b'{"ok": true}'], trees)


def serve(channel: socket.socket, *, trees: bool) -> None:
    """Either of them, and its answer; the process ends after it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    kernel.set_dumpable(dumpable=False)
    kernel.close_all_but({0, 1, 2, channel.fileno()})
    try:
        if trees:
            give_trees(channel)
            return
        answer: dict[str, Any] = {"ok": True, **restore(channel)}
    except Exception as error:  # noqa: BLE001  whoever waits is told
        answer = {"ok": False, "error": str(error)}
    channel.send(json.dumps(answer).encode())


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, fds, flags = receive_fds(channel, MESSAGE_BYTES, kernel.DESCRIPTORS_MAX)
    if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        os._exit(0)  # the daemon went away or changed its mind
    return json.loads(data), fds


def _enter(namespace: int) -> int:
    """Be in the box's A and among its mounts; returns the setting that limits detached trees there."""
    kernel.join(kernel.owner_of_mounts(namespace), kernel.CLONE_NEWUSER)
    kernel.become(0, 0)  # a root caller's own ids mean nothing there
    limit = os.open(_LIMIT, os.O_WRONLY | os.O_CLOEXEC)  # the host's /proc, which shows everyone their own
    kernel.join(namespace, kernel.CLONE_NEWNS)
    return limit


def _restore(operations: list[Operation], trees: dict[int, int]) -> dict[str, list[int]]:
    root = _root()
    empties = [_identity_at(root, name) for name in (mounting.EMPTY_FILE, mounting.EMPTY_DIR)]
    found: dict[str, list[int]] = {"covered": [], "gone": [], "links": [], "wanting": []}
    for number, operation in enumerate(operations):
        try:
            result = _again(root, _fitting(root, operation), trees.get(number), empties)
        except OSError as error:
            msg = f"{operation['op']} {operation['target']}: {error.strerror}"
            raise OSError(error.errno, msg) from error
        if result:
            found[result].append(number)
    return found


def _root() -> int:
    """Where the box's tree is: gVisor's process for its files has a root above it. The name is taken in every other."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    root = os.open("/", flags)
    try:
        _identity_at(root, mounting.EMPTY_FILE)
    except FileNotFoundError:
        os.close(root)
        return os.open("/root", flags)
    return root


def _fitting(root: int, operation: Operation) -> Operation:
    """No directory can be mounted where the host has put a file, nor the other way round; but it can be read-only."""
    if operation["op"] != "bind":
        return operation
    fd = kernel.open_beneath(root, operation["target"])
    if fd < 0:
        return operation
    kind = os.fstat(fd).st_mode
    os.close(fd)
    fits = stat.S_ISLNK(kind) or stat.S_ISDIR(kind) == operation["directory"]
    return operation if fits else {**operation, "op": "readonly"}


def _again(root: int, operation: Operation, tree: int | None, empties: list[tuple[int, int]]) -> str:
    """What was to do about one name; empty when it is covered as it should be."""
    target = -1
    try:
        target = mounting.find(root, {**operation, "optional": True})
        if target < 0:
            return "gone"
        if _is_in_place(target, operation, empties):
            return ""
        if operation["op"] != "bind":
            mounting.EXECUTE[operation["op"]](root, operation)
        elif tree is None:
            return "wanting"
        else:
            mounting.check_identity(tree, operation)
            mounting.EXECUTE["bind"](root, operation, tree)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "links"
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:  # replaced once more, and whoever watches has heard of it
            return "gone"
        raise
    finally:
        if target >= 0:
            os.close(target)
    return "covered"


def _is_in_place(target: int, operation: Operation, empties: list[tuple[int, int]]) -> bool:
    """Another cover may lie there by now: a mount moves with a file that the host renames."""
    if not kernel.is_mount_root(target):
        return False
    kind = operation["op"]
    if kind == "cover":
        return _identity(target) in empties
    read_only = bool(os.fstatvfs(target).f_flag & os.ST_RDONLY)
    if kind == "bind":  # a name that came back in the moment when it was gone was closed: it is the file, but not open
        return _identity(target) == tuple(operation["identity"]) and read_only == ("ro" in operation["attributes"])
    return kind == "pin" or read_only


def _identity_at(root: int, name: str) -> tuple[int, int]:
    found = os.stat(name, dir_fd=root, follow_symlinks=False)
    return found.st_dev, found.st_ino


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino

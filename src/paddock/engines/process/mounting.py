"""Executes a mount plan (planned in plan.py as a list of plain operations) in the box's own mount namespace.

Sources are opened before anything is covered, and a target is walked component by component without following a
symlink: a workspace may hold links an earlier run planted, and the host's tree is still in view here.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from paddock.engines.process import branch, kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Operation = dict[str, Any]  # one of plan.MountOp, as JSON; what is empty there is missing here

ROOT = "/tmp"  # any directory that exists everywhere: the new root covers it until the pivot
EMPTY_FILE, EMPTY_DIR = ".paddock-empty", ".paddock-void"  # they stay: see covering.py
_LOWER, _LAYERS = ".paddock-lower", ".paddock-layers"
_ATTRIBUTES = {
    "ro": kernel.ATTR_RDONLY,
    "nosuid": kernel.ATTR_NOSUID,
    "nodev": kernel.ATTR_NODEV,
    "noexec": kernel.ATTR_NOEXEC,
}
_BASE = kernel.MS_NOSUID | kernel.MS_NODEV
# The host may replace a file between our finding it and covering it, and it may do so in a loop.
_RETRY_S = 2.0
_ATTEMPTS = 50  # at a name that is not there, or not yet again


class Replaced(FileNotFoundError):
    """What was found has no name any more."""


def build(operations: list[Operation], trees: list[int]) -> tuple[int, list[int]]:
    """Assemble the new root at ROOT. `trees` are the sources when the caller is root, in plan order.

    Returns a descriptor of the box's own /proc/sys, beneath what covers it, and one of each overlay, with which its
    owner can make it look again at what lies below.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    sources = open_sources(operations, trees)
    kernel.mount("root", ROOT, "tmpfs", _BASE, "mode=755,size=4m,nr_inodes=4096")
    root = os.open(ROOT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.close(os.open(EMPTY_FILE, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=root))
    os.mkdir(EMPTY_DIR, 0o555, dir_fd=root)
    settings = -1
    overlays = []
    for number, operation in enumerate(operations):
        try:
            execute(root, operation, sources.get(number, []))
        except OSError as error:
            msg = f"{operation['op']} {operation['target']}: {error.strerror}"
            raise OSError(error.errno, msg) from error
        if operation["op"] == "proc":
            settings = walk(root, f"{operation['target']}/sys", directory=None)
        if operation["op"] == "overlay":
            overlays.append(picked(root, operation))
    os.close(root)
    return settings, overlays


def execute(root: int, operation: Operation, sources: list[int]) -> None:
    deadline = time.monotonic() + _RETRY_S
    missing = 1 if sources else _ATTEMPTS  # what was given is used up by the first
    while True:
        try:
            EXECUTE[operation["op"]](root, operation, *sources)
        except Replaced:
            if time.monotonic() > deadline:
                raise
        except FileNotFoundError:
            missing -= 1
            if not missing:
                raise
        else:
            return


def pivot() -> None:
    os.chdir(ROOT)
    kernel.pivot_root_here()
    kernel.mount("none", "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _BASE)
    dev = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("none", "/dev", None, dev)


def open_sources(operations: list[Operation], trees: list[int]) -> dict[int, list[int]]:
    given = list(trees)
    sources: dict[int, list[int]] = {}
    for number, operation in enumerate(operations):
        if operation["op"] == "device":
            sources[number] = [kernel.open_tree(operation["source"], recursive=False)]
        elif operation["op"] == "branch":
            paths = [*operation.get("lowers", ()), operation["layers"]]
            sources[number] = [given.pop(0) if trees else kernel.open_tree(path, recursive=False) for path in paths]
        elif operation["op"] in {"bind", "overlay"}:
            paths = [operation[key] for key in ("source", "layers") if operation.get(key)]
            sources[number] = [given.pop(0) if trees else kernel.open_tree(path) for path in paths]
            check_identity(sources[number][0], operation)
    return sources


def check_identity(fd: int, operation: Operation) -> None:
    found = os.fstat(fd)
    if [found.st_dev, found.st_ino] != operation["identity"]:
        msg = f"{operation['source']} was replaced while the box started"
        raise OSError(errno.ESTALE, msg)


def _tmpfs(root: int, operation: Operation) -> None:
    target = walk(root, operation["target"], directory=True)
    flags = _BASE | (kernel.MS_NOEXEC if operation["noexec"] else 0)
    if operation.get("devices"):
        flags &= ~kernel.MS_NODEV
    kernel.mount("tmpfs", f"/proc/self/fd/{target}", "tmpfs", flags, operation["options"])
    os.close(target)


def _filesystem(root: int, operation: Operation) -> None:
    target = walk(root, operation["target"], directory=True)
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC | (kernel.MS_NODEV if operation["op"] == "proc" else 0)
    kernel.mount(operation["op"], f"/proc/self/fd/{target}", operation["op"], flags, operation.get("options", ""))
    os.close(target)


def _directory(root: int, operation: Operation) -> None:
    fd = walk(root, operation["target"], directory=True)
    if operation.get("mode"):
        os.chmod(f"/proc/self/fd/{fd}", operation["mode"])
    os.close(fd)


def _symlink(root: int, operation: Operation) -> None:
    parent, _, name = operation["target"].rpartition("/")
    fd = walk(root, parent or "/", directory=True)
    os.symlink(operation["to"], name, dir_fd=fd)
    os.close(fd)


def _bind(root: int, operation: Operation, source: int) -> None:
    attributes = 0
    for word in operation["attributes"]:
        attributes |= _ATTRIBUTES[word]
    kernel.set_mount(source, attributes, recursive=operation["op"] == "bind")
    target = walk(root, operation["target"], directory=stat.S_ISDIR(os.fstat(source).st_mode))
    kernel.move_mount(source, target)
    os.close(source)
    os.close(target)


def _overlay(root: int, operation: Operation, lower: int, layers: int) -> None:
    """Mount it from places of its own: the kernel takes layers only from the mounts of this very namespace."""
    for name, tree in ((_LOWER, lower), (_LAYERS, layers)):
        os.mkdir(name, 0o700, dir_fd=root)
        place = walk(root, name, directory=True)
        kernel.move_mount(tree, place)
        os.close(place)
        os.close(tree)
    target = walk(root, operation["target"], directory=True)
    base = f"{ROOT}/{_LAYERS}"
    # No index and no inode numbers of its own: with them the kernel would hold the lower to be the one it first saw.
    options = f"userxattr,index=off,xino=off,lowerdir={ROOT}/{_LOWER},upperdir={base}/upper,workdir={base}/work"
    kernel.mount("overlay", f"/proc/self/fd/{target}", "overlay", _BASE, options)
    os.close(target)
    for name in (_LOWER, _LAYERS):
        kernel.unmount(f"{ROOT}/{name}")
        os.rmdir(name, dir_fd=root)


def _branch(root: int, operation: Operation, *sources: int) -> None:
    target = walk(root, operation["target"], directory=True)
    branch.mount(root, target, sources)
    os.close(target)


def picked(root: int, operation: Operation) -> int:
    target = walk(root, operation["target"], directory=True)
    try:
        return kernel.pick_file_system(target)
    finally:
        os.close(target)


def _readonly(root: int, operation: Operation) -> None:
    """Make an existing file or directory read-only where it is, which also pins its name: it is a mount point."""
    target = find(root, operation)
    if target < 0:
        return
    tree = kernel.clone_tree(target, recursive=True)
    kernel.set_mount(tree, kernel.ATTR_RDONLY | _BASE)
    _lay(tree, target)


def _pin(root: int, operation: Operation) -> None:
    """Make an existing directory a mount point, so that it can be neither renamed nor removed."""
    target = find(root, operation)
    if target < 0:
        return
    _lay(kernel.clone_tree(target, recursive=True), target)


def _cover(root: int, operation: Operation) -> None:
    """Hide an existing file or directory behind an empty, read-only one."""
    target = find(root, operation)
    if target < 0:
        return
    empty = EMPTY_DIR if stat.S_ISDIR(os.fstat(target).st_mode) else EMPTY_FILE
    fd = os.open(empty, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    tree = kernel.clone_tree(fd)
    os.close(fd)
    kernel.set_mount(tree, kernel.ATTR_RDONLY | _BASE | kernel.ATTR_NOEXEC, recursive=False)
    _lay(tree, target)


def _lay(tree: int, target: int) -> None:
    """Both are closed whatever happens: who tries again must not run out of them."""
    try:
        kernel.move_mount(tree, target)
    except FileNotFoundError as error:
        raise Replaced(*error.args) from error
    finally:
        os.close(tree)
        os.close(target)


def find(root: int, operation: Operation) -> int:
    """O_PATH of an operation's target; -1 if it is optional and not there."""
    try:
        return walk(root, operation["target"], directory=None)
    except FileNotFoundError:
        if operation.get("optional"):
            return -1
        raise


def walk(root: int, path: str, *, directory: bool | None) -> int:
    """Open `path` beneath the new root, making what is missing (None: make nothing). No component may be a symlink."""
    existing = kernel.open_beneath(root, path)
    if existing >= 0:
        _check_kind(existing, path, directory=bool(directory))
        return existing
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        raise OSError(errno.EINVAL, "'..' leads out of the root")
    fd = os.dup(root)
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        want_directory = not last or bool(directory)
        try:
            if directory is not None:
                _make(fd, part, directory=want_directory)
            step = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        finally:
            os.close(fd)
        fd = step
        _check_kind(fd, part, directory=want_directory)
    return fd


def _check_kind(fd: int, name: str, *, directory: bool) -> None:
    kind = os.fstat(fd).st_mode
    if stat.S_ISLNK(kind):
        raise OSError(errno.ELOOP, f"{name!r} is a symbolic link")
    if directory and not stat.S_ISDIR(kind):
        raise OSError(errno.ENOTDIR, f"{name!r} is not a directory")


def _make(fd: int, name: str, *, directory: bool) -> None:
    try:
        if directory:
            os.mkdir(name, 0o755, dir_fd=fd)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=fd))
    except FileExistsError:
        pass
    except OSError as error:
        # A read-only parent is fine when the name is there already; the open that follows tells.
        if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise


EXECUTE: dict[str, Callable[..., None]] = {
    "tmpfs": _tmpfs,
    "proc": _filesystem,
    "devpts": _filesystem,
    "dir": _directory,
    "symlink": _symlink,
    "bind": _bind,
    "overlay": _overlay,
    "branch": _branch,
    "device": _bind,
    "readonly": _readonly,
    "pin": _pin,
    "cover": _cover,
}

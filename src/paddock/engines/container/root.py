"""The root file system of a container box: its layers and its own changes as one, and what is mounted above them.

Runs in the keeper, with the capabilities of the box's outer user namespace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from paddock.engines.process import kernel, mounting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Plan = dict[str, Any]  # one of plan.Plan, as JSON

ROOTFS = "rootfs"
CHANGES = "changes"
_GIVEN = ("resolv.conf", "hosts")  # images have links here, and no mount lands behind one


def build(plan: Plan, trees: list[int]) -> list[int]:
    """Assemble it at mounting.ROOT/ROOTFS. `trees` are the sources when the caller is root, in plan order.

    Returns a handle of each overlay of the user's directories, as mounting.build does.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    given = list(trees)
    pins = [plan["pinned"], *([] for _ in plan["layers"])]
    paths = zip([*plan["layers"], plan["upper"]], pins, strict=True)
    layers = [given.pop(0) if trees else open_layer(path, pinned) for path, pinned in paths]
    sources = mounting.open_sources(plan["mounts"], given)
    kernel.mount("root", mounting.ROOT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=4m,nr_inodes=4096")
    root = os.open(mounting.ROOT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.close(os.open(mounting.EMPTY_FILE, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=root))
    os.mkdir(mounting.EMPTY_DIR, 0o555, dir_fd=root)
    _layered(root, layers)
    _make_room(root)
    overlays = _above(root, plan["mounts"], sources, plan["file_ids"])
    for name in (mounting.EMPTY_FILE, mounting.EMPTY_DIR):  # where covering.py looks for them
        _show(root, name)
    os.close(root)
    return overlays


def open_layer(path: str, pinned: Sequence[int]) -> int:
    """A copy of the mount there. A directory of the user's must be the one that the box was made of, and at its place:
    somebody who can write to a parent of it could have put a link there, and the host's own files would be the root.
    """
    if not pinned:
        return kernel.open_tree(path, recursive=False)
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    fd = kernel.open_beneath(top, path)
    os.close(top)
    if fd < 0:
        raise OSError(errno.ELOOP, f"the template {path} is gone, or behind a symbolic link by now")
    try:
        found = os.fstat(fd)
        if [found.st_dev, found.st_ino] != list(pinned):
            raise OSError(errno.ESTALE, f"the template {path} was replaced since the box was made")
        return kernel.clone_tree(fd)
    finally:
        os.close(fd)


def _layered(root: int, layers: list[int]) -> None:
    # Relative names: the kernel takes one page of options, and there may be a hundred layers.
    names = [*(f"l{number}" for number in range(len(layers) - 1)), CHANGES]
    for name, tree in zip(names, layers, strict=True):
        place = mounting.walk(root, name, directory=True)
        kernel.set_mount(tree, kernel.ATTR_NODEV | (kernel.ATTR_RDONLY if name != CHANGES else 0), recursive=False)
        kernel.move_mount(tree, place)
        os.close(tree)
        os.close(place)
    os.mkdir(ROOTFS, 0o755, dir_fd=root)
    lower = ":".join(reversed(names[:-1]))
    options = f"userxattr,index=off,xino=off,lowerdir={lower},upperdir={CHANGES}/upper,workdir={CHANGES}/work"
    os.chdir(mounting.ROOT)
    kernel.mount("overlay", f"{mounting.ROOT}/{ROOTFS}", "overlay", kernel.MS_NODEV, options)


def _make_room(root: int) -> None:
    etc = mounting.walk(root, f"{ROOTFS}/etc", directory=True)
    for name in _GIVEN:
        try:
            if stat.S_ISLNK(os.lstat(f"/proc/self/fd/{etc}/{name}").st_mode):
                os.unlink(f"/proc/self/fd/{etc}/{name}")
        except FileNotFoundError:
            continue
    os.close(etc)


def _above(
    root: int, operations: list[dict[str, Any]], sources: dict[int, list[int]], file_ids: list[int]
) -> list[int]:
    overlays = []
    users: list[str] = []  # where what is made, as the place of a mount, must be the user's too
    for number, operation in enumerate(operations):
        try:
            if operation["op"] in {"overlay", "branch"}:
                if not _is_in(operation["target"], users):
                    os.close(mounting.walk(root, operation["target"], directory=True))  # as root
                with _making_as(file_ids):
                    _over(root, operation, sources[number])
                users += [operation["target"], *([f"/{ROOTFS}{operation['to']}"] if operation.get("to") else ())]
            else:
                with _making_as(file_ids if _is_in(operation["target"], users) else []):
                    mounting.execute(root, operation, sources.get(number, []))
        except OSError as error:
            msg = f"{operation['op']} {operation['target']}: {error.strerror}"
            raise OSError(error.errno, msg) from error
        if operation["op"] == "overlay":
            overlays.append(mounting.picked(root, operation))
    return overlays


def _is_in(path: str, places: list[str]) -> bool:
    return any(path.startswith(f"{place}/") for place in places)


@contextlib.contextmanager
def _making_as(file_ids: list[int]) -> Iterator[None]:
    """An overlay makes its files as who mounted it: that must be somebody to whom they can belong where they lie."""
    if not file_ids:
        yield
        return
    kernel.set_file_ids(*file_ids)
    try:
        yield
    finally:
        kernel.set_file_ids(0, 0)


def _over(root: int, operation: dict[str, Any], sources: list[int]) -> None:
    if operation["op"] == "branch":
        _home(root, operation, sources)
    else:
        mounting.execute(root, operation, sources)


def _home(root: int, operation: dict[str, Any], sources: list[int]) -> None:
    """Below all, what the image has in its user's home; the whole is at that place, too."""
    own = f"{ROOTFS}{operation['to']}" if operation.get("to") else ""
    lower = kernel.open_beneath(root, own) if own else -1
    if lower < 0 or not stat.S_ISDIR(os.fstat(lower).st_mode):
        own, lower = "", mounting.walk(root, mounting.EMPTY_DIR, directory=True)
    mounting.execute(root, operation, [kernel.clone_tree(lower), *sources])
    if own and own != operation["target"].lstrip("/"):
        made = mounting.walk(root, operation["target"], directory=True)
        tree = kernel.clone_tree(made)
        kernel.move_mount(tree, lower)
        os.close(made)
        os.close(tree)
    os.close(lower)


def _show(root: int, name: str) -> None:
    source = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    target = mounting.walk(root, f"{ROOTFS}/{name}", directory=name == mounting.EMPTY_DIR)
    tree = kernel.clone_tree(source)
    kernel.set_mount(tree, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC, recursive=False)
    kernel.move_mount(tree, target)
    for fd in (source, target, tree):
        os.close(fd)

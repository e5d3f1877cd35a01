"""The root file system of a container box: its layers and its own changes as one, and what is mounted above them.

Runs in the keeper, with the capabilities of the box's outer user namespace.
"""

from __future__ import annotations

import os
import stat

from paddock.engines.process import kernel, mounting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Plan = dict[str, Any]  # one of plan.Plan, as JSON

ROOTFS = "rootfs"  # bundle.ROOTFS
_CHANGES = "changes"
_GIVEN = ("resolv.conf", "hosts")  # images have links here, and no mount lands behind one


def build(plan: Plan, trees: list[int]) -> list[int]:
    """Assemble it at mounting.ROOT/ROOTFS. `trees` are the sources when the caller is root, in plan order.

    Returns a handle of each overlay of the user's directories, as mounting.build does.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    given = list(trees)
    paths = [*plan["layers"], plan["upper"]]
    layers = [given.pop(0) if trees else kernel.open_tree(path) for path in paths]
    sources = mounting.open_sources(plan["mounts"], given)
    kernel.mount("root", mounting.ROOT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=4m,nr_inodes=4096")
    root = os.open(mounting.ROOT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.close(os.open(mounting.EMPTY_FILE, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=root))
    os.mkdir(mounting.EMPTY_DIR, 0o555, dir_fd=root)
    _layered(root, layers)
    _make_room(root)
    overlays = _above(root, plan["mounts"], sources)
    for name in (mounting.EMPTY_FILE, mounting.EMPTY_DIR):  # where covering.py looks for them
        _show(root, name)
    os.close(root)
    return overlays


def _layered(root: int, layers: list[int]) -> None:
    # Relative names: the kernel takes one page of options, and there may be a hundred layers.
    names = [*(f"l{number}" for number in range(len(layers) - 1)), _CHANGES]
    for name, tree in zip(names, layers, strict=True):
        place = mounting.walk(root, name, directory=True)
        kernel.set_mount(tree, kernel.ATTR_NODEV | (kernel.ATTR_RDONLY if name != _CHANGES else 0), recursive=False)
        kernel.move_mount(tree, place)
        os.close(tree)
        os.close(place)
    os.mkdir(ROOTFS, 0o755, dir_fd=root)
    lower = ":".join(reversed(names[:-1]))
    options = f"userxattr,index=off,xino=off,lowerdir={lower},upperdir={_CHANGES}/upper,workdir={_CHANGES}/work"
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


def _above(root: int, operations: list[dict[str, Any]], sources: dict[int, list[int]]) -> list[int]:
    overlays = []
    for number, operation in enumerate(operations):
        try:
            mounting.execute(root, operation, sources.get(number, []))
        except OSError as error:
            msg = f"{operation['op']} {operation['target']}: {error.strerror}"
            raise OSError(error.errno, msg) from error
        if operation["op"] == "overlay":
            overlays.append(mounting.picked(root, operation))
    return overlays


def _show(root: int, name: str) -> None:
    source = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    target = mounting.walk(root, f"{ROOTFS}/{name}", directory=name == mounting.EMPTY_DIR)
    tree = kernel.clone_tree(source)
    kernel.set_mount(tree, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC, recursive=False)
    kernel.move_mount(tree, target)
    for fd in (source, target, tree):
        os.close(fd)

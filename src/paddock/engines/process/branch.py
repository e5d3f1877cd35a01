"""A home after a checkpoint: directories that nobody changes, and above them what the box has changed since, as one.

Runs in the box's own mount namespace, before it is confined. What the box changes goes to UPPER in its storage, WORK
beside it is the kernel's own; the storage itself is out of sight again when the box runs.
"""

from __future__ import annotations

import os

from paddock.engines.process import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

UPPER, WORK = "home", "home.work"  # in the box's storage
_PLACE, _CHANGES = ".paddock-branch", "c"
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV
_LOWER = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV


def mount(root: int, target: int, trees: Sequence[int]) -> None:
    """At `target`, from the lower trees, lowest first, and that of the storage; `root` is a directory of our own."""
    # The kernel takes layers only from the mounts of this very namespace, and one page of options: short names.
    names = [*(str(number) for number in range(len(trees) - 1)), _CHANGES]
    os.mkdir(_PLACE, 0o700, dir_fd=root)
    for name, tree in zip(names, trees, strict=True):
        _land(root, f"{_PLACE}/{name}", tree, 0 if name == _CHANGES else _LOWER)
    lower = ":".join(f"{_PLACE}/{name}" for name in reversed(names[:-1]))
    changes = f"{_PLACE}/{_CHANGES}"
    options = f"userxattr,index=off,xino=off,lowerdir={lower},upperdir={changes}/{UPPER},workdir={changes}/{WORK}"
    os.fchdir(root)
    kernel.mount("overlay", f"/proc/self/fd/{target}", "overlay", _FLAGS, options)
    for name in names:
        kernel.unmount(f"{_PLACE}/{name}")
        os.rmdir(f"{_PLACE}/{name}", dir_fd=root)
    os.rmdir(_PLACE, dir_fd=root)


def _land(root: int, path: str, tree: int, attributes: int) -> None:
    os.mkdir(path, 0o700, dir_fd=root)
    place = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    kernel.set_mount(tree, attributes, recursive=False)
    kernel.move_mount(tree, place)
    os.close(place)
    os.close(tree)

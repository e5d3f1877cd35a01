"""A root caller opens the trees of a plan itself: the box's uid, a subordinate one, could not walk to them.

Where a tree is the user's own, its owner on disk stands for the box's user, by an id-mapped mount.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from paddock.engines.process import kernel
from paddock.errors import Unavailable, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paddock.engines.process.operations import MountOp
    from paddock.engines.process.warm import Launcher

_FIRST_SUBORDINATE_ID = 1_900_000_000  # above systemd's container range, below the sign bit
_ID_MAPS_KEPT = 64


def subordinate_id(index: int) -> int:
    """What the user of a root caller's box is on the host."""
    return _FIRST_SUBORDINATE_ID + index


class Trees:
    def __init__(self, launcher: Launcher, owner_of: Callable[[int], int] = subordinate_id) -> None:
        """`owner_of` says which id on the host a box's user is, by the box's index."""
        self._launcher = launcher
        self._owner_of = owner_of
        self._id_maps: dict[tuple[int, ...], int] = {}
        self._id_maps_kept = min(_ID_MAPS_KEPT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 16)

    def __repr__(self) -> str:
        return f"<Trees {len(self._id_maps)} id maps>"

    async def open(
        self, mounts: Iterable[MountOp], index: int, inside: tuple[int, int] = (0, 0), *, by_root: bool = False
    ) -> list[int]:
        """Descriptors in the order of the operations, the caller's to close.

        `inside` says which of its users has the box's own files, where it has several; `by_root`, that its root makes
        them for whoever it is (gVisor's process for files), and so must have a name there.
        """
        trees: list[int] = []
        try:
            for op in mounts:
                for path in op.trees():
                    trees.append(kernel.open_tree(path))
                    if op.owner:
                        map_owner(trees[-1], path, await self._id_map(op.owner, index, inside, by_root=by_root))
                if len(trees) >= kernel.DESCRIPTORS_MAX:  # one is left for the door
                    raise _too_many()
        except BaseException:
            for fd in trees:
                os.close(fd)
            raise
        return trees

    async def _id_map(self, owner: tuple[int, ...], index: int, inside: tuple[int, int], *, by_root: bool) -> int:
        """Kept for the next box in the same position: making one costs a fork."""
        key = (*owner, index, *inside, by_root)
        if key not in self._id_maps:
            while len(self._id_maps) >= self._id_maps_kept:
                os.close(self._id_maps.pop(next(iter(self._id_maps))))
            first = self._owner_of(index)
            pairs = zip(owner, inside, strict=True)
            maps = [
                _swap(number, first + one) + (f"\n{first} {first} 1" if by_root and one else "")
                for number, one in pairs
            ]
            self._id_maps[key] = await self._launcher.id_map(*maps)
        return self._id_maps[key]


def _swap(number: int, subordinate: int) -> str:
    """The owner's id becomes the box's; every other id stays what it is, and stays foreign to the box."""
    lines = [f"{number} {subordinate} 1"]
    if number > 0:
        lines.append(f"0 0 {number}")
    lines.append(f"{number + 1} {number + 1} {_FIRST_SUBORDINATE_ID - number - 1}")
    return "\n".join(lines)


def map_owner(tree: int, path: str, userns: int) -> None:
    try:
        kernel.set_mount(tree, kernel.ATTR_IDMAP, userns=userns)
    except OSError as error:
        raise Unavailable(
            f"the file system of {path} cannot map owners for a root caller: {error.strerror}",
            hint="run paddock as the user who owns the directory, or put it on ext4, xfs, btrfs or tmpfs",
            code="idmap",
        ) from error


def _too_many() -> UserError:
    hint = "give a directory with fewer repositories in it, or use --review"
    return UserError(f"the box would need over {kernel.DESCRIPTORS_MAX} mounts", hint=hint, code="too-many-mounts")

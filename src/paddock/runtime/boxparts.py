"""What of a box's directory belongs to its state: uppers, which are frozen, and the rest, which is copied.

An upper lies above a chain of layers and is a rename away from being one of them. What a review or a clone has is read
and written by the host, so it stays one plain tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.engines.container import gvisor
from paddock.engines.container.removal import remove_tree
from paddock.engines.process.operations import HOME as AGENT_HOME
from paddock.errors import Unavailable
from paddock.images.layers import LayerId, Layers
from paddock.model import EngineName, WorkspaceMode
from paddock.runtime import apart
from paddock.runtime.bases import GIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.model import BoxSpec
    from paddock.runtime.box import Box

HOME: Final = "home"
ROOT: Final = "root/upper"
MEMORY: Final = f"root/{gvisor.MEMORY}"  # of a box that was saved as it ran
REVIEW: Final = ("review/upper", "review/state")
KERNELS: Final = ("root/work/work", "home.work/work", "review/work/work")  # an overlay's own, closed to all
INCOMING: Final = "incoming"  # files of a checkpoint that is being restored


def uppers(spec: BoxSpec) -> dict[str, tuple[str, ...]]:
    """Where a box's changes lie, and above what; the home last, since a box without one has never run."""
    home = {HOME: spec.home_layers}
    return {ROOT: spec.layers, **home} if spec.engine is EngineName.CONTAINER else home


def standing_on(spec: BoxSpec) -> tuple[str, ...]:
    """All that a box stands on."""
    return tuple(layer for chain in uppers(spec).values() for layer in chain)


def mounted_on(spec: BoxSpec) -> tuple[str, ...]:
    """Places in its root where something of the user's lies: in its layers they are empty directories."""
    return (spec.workspace, AGENT_HOME, *(mount.target for mount in spec.mounts))


def copied(spec: BoxSpec) -> tuple[str, ...]:
    match spec.mode:
        case WorkspaceMode.LIVE:
            return ()
        case WorkspaceMode.REVIEW:
            return (*REVIEW, GIT)
        case WorkspaceMode.CLONE:
            return (GIT,)


def copy(source: str, target: str, wanted: tuple[str, ...]) -> None:
    for part in wanted:
        if not fs.is_missing(f"{source}/{part}"):
            os.makedirs(os.path.dirname(f"{target}/{part}"), 0o711, exist_ok=True)
            apart.copy(f"{source}/{part}", f"{target}/{part}")


def lacking(directory: str, spec: BoxSpec) -> list[str]:
    """Uppers that are not there, of those that lie above something."""
    return [part for part, chain in uppers(spec).items() if chain and fs.is_missing(f"{directory}/{part}")]


def renew(layers: Layers, directory: str, spec: BoxSpec) -> None:
    """Empty uppers where there are none, each like the top of what it lies above: the kernel shows them as one."""
    for part in lacking(directory, spec):
        place = f"{directory}/{part}"
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        fs.remove_tree(f"{place}.new")
        apart.make_like(places(layers, uppers(spec)[part])[-1], f"{place}.new")
        os.rename(f"{place}.new", place)
    fs.sync_directory(directory)


async def complete(layers: str, box: Box) -> None:
    """After a freeze that was not followed by new uppers: a crash, or no room for them."""
    if box.row.spec.home_layers and lacking(box.directory, box.row.spec):
        await asyncio.to_thread(renew, Layers(layers), box.directory, box.row.spec)


def places(layers: Layers, chain: tuple[str, ...]) -> list[str]:
    """The directories of a chain, each of the store's or of the user's."""
    return [layer if layer.startswith("/") else layers.tree(LayerId(layer)) for layer in chain]


def require_settled(box: Box) -> None:
    """Unavailable while a restore was begun and not finished: what lies there is neither of the two states."""
    if not fs.is_missing(f"{box.directory}/{INCOMING}"):
        hint = f"restore it again, to the same or another: `paddock checkpoint ls {box.name}`"
        raise Unavailable(f"the box {box.name!r} is not yet what it is restored to", hint=hint, code="restoring")


@contextlib.contextmanager
def staged(path: str) -> Iterator[str]:
    """A directory that is gone afterwards, unless it was given another name."""
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        remove_tree(path)


@contextlib.contextmanager
def undisturbed(box: Box) -> Iterator[None]:
    """Nobody applies changes of a review meanwhile."""
    lock = f"{box.directory}/review/state/lock"
    with fs.FileLock(lock) if not fs.is_missing(os.path.dirname(lock)) else contextlib.nullcontext():
        yield

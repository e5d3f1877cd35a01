"""Checkpoints: a state of a box that it can be put back to, and that other boxes can start from.

Theory. A checkpoint is layers. What a container changed in its root is frozen by a rename, whatever its size: the
directory becomes a layer of the store, the box goes on above it with an empty one. What lies in a box's directory, its
home and its review or clone of the workspace, is copied into a second layer: the host reads and writes there, so it
must stay one plain tree. A process box has only that. A live workspace is the user's own and in no checkpoint.

Each step is written down before it is taken. `freezing`: a row that is not whole names layers; when the last of them is
there it is finished, else it goes (settle). Restoring: a row of `restores` stands from the moment that the box's row
has the old layers until its files are the old ones; putting files in place can be done twice (place).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import fs, limits
from paddock.engines.container import ids
from paddock.engines.container.removal import remove_tree
from paddock.errors import PaddockError, UserError
from paddock.images.layers import LayerId, Layers, new_frozen_id
from paddock.model import EngineName, WorkspaceMode, check_name
from paddock.reports import CheckpointInfo, DifferenceInfo, LayerUsage
from paddock.runtime import apart, records, workspaces
from paddock.runtime.bases import GIT
from paddock.runtime.lifetimes import INCOMING
from paddock.store import CheckpointRow, now
from paddock.workspace import gitdir

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import TypeVar

    from paddock.images.leases import Lease
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import Store

    T = TypeVar("T")

_HOME: Final = "home"
_REVIEW: Final = ("review/upper", "review/state")
_UPPER: Final = "root/upper"
_ROOT: Final = "root"
_SHOWN: Final = {_ROOT: "/", _HOME: "/home/agent/", _REVIEW[0]: "workspace/", f"{GIT}/tree": "workspace/"}
_SHOWN_MAX: Final = 5_000  # differences


# -- making ------------------------------------------------------------------------------------------------------------


async def create(runtime: Runtime, box: Box, name: str = "", *, stop: bool = False) -> CheckpointInfo:
    """UserError while a command runs in the box, unless it may be stopped."""
    if name:
        check_name(name)
    async with box.lock:
        await _rest(runtime, box, stop=stop)
        known = await runtime.register.checkpoints(box)
        taken = {row.name for row in known}
        if name in taken:
            hint = f"`paddock checkpoint rm {box.name}@{name}` first, or choose another name"
            raise UserError(f"{box.name} has a checkpoint {name!r}", hint=hint, code="exists")
        if len(box.row.spec.layers) >= limits.LAYERS_PER_BOX:
            hint = "restore an earlier checkpoint, or go on in a box that is made anew"
            raise UserError(f"{box.name} is made of {limits.LAYERS_PER_BOX} layers", hint=hint, code="too-many")
        if len(known) >= limits.CHECKPOINTS_PER_BOX:
            hint = f"`paddock checkpoint ls {box.name}` lists them; remove some"
            raise UserError(f"{box.name} has {len(known)} checkpoints", hint=hint, code="too-many")
        name = name or next(word for number in range(1, len(taken) + 2) if (word := f"c{number}") not in taken)
        return _info(box, await _to_its_end(_freeze(runtime, box, name)))


async def _rest(runtime: Runtime, box: Box, *, stop: bool) -> None:
    """End a box that nothing runs in, or that may be stopped: who runs would go on writing into the layer."""
    if box.row.spec.ephemeral or not records.has_run(box.directory):
        hint = "a checkpoint keeps what a box did, and it stays in the box: make one that stays, and run something"
        raise UserError(f"the box {box.name!r} has done nothing to keep", hint=hint, code="nothing")
    if box.handle is not None and not stop and not await asyncio.to_thread(box.handle.is_idle):
        raise UserError(
            f"a command is running in {box.name!r}", hint="wait for it, or end it with --stop", code="running"
        )
    await runtime.lifetimes.end(box, grace_s=limits.STOP_GRACE_S if stop else 0.0)


async def _freeze(runtime: Runtime, box: Box, name: str) -> CheckpointRow:
    layers = Layers(runtime.paths.layers)
    is_container = box.row.spec.engine is EngineName.CONTAINER
    row = CheckpointRow(
        id=secrets.token_hex(8),
        box=box.row.id,
        name=name,
        created_at=now(),
        storage=new_frozen_id(),
        root=(*box.row.spec.layers, new_frozen_id()) if is_container else (),
    )
    await runtime.register.begin_checkpoint(row)
    try:
        await asyncio.to_thread(_freeze_files, layers, box, row)
        await runtime.register.finish_checkpoint(box, row)
    except BaseException:  # no room, say: then nothing has happened
        await _unfreeze(layers, box, row)
        with contextlib.suppress(PaddockError):  # recovery drops it
            await runtime.register.drop_checkpoint(box, row.id)
        raise
    return replace(row, is_whole=True)


def _freeze_files(layers: Layers, box: Box, row: CheckpointRow) -> None:
    count = ids.of_caller(box.row.position).count
    owners = count if count > 1 else 0
    with layers.lease() as lease, _undisturbed(box):
        with _staged(f"{lease.staging}/storage") as copy:
            _copy_parts(box.directory, copy, parts(box.row.spec))
            layers.freeze(lease, copy, LayerId(row.storage), owners)
        if row.root:
            upper = f"{box.directory}/{_UPPER}"
            os.makedirs(upper, 0o755, exist_ok=True)
            layers.freeze(lease, upper, LayerId(row.root[-1]), owners, apart.move)


def parts(spec: BoxSpec) -> tuple[str, ...]:
    """What of a box's directory belongs to its state."""
    match spec.mode:
        case WorkspaceMode.LIVE:
            return (_HOME,)
        case WorkspaceMode.REVIEW:
            return (*_REVIEW, GIT, _HOME)
        case WorkspaceMode.CLONE:
            return (GIT, _HOME)


def _copy_parts(source: str, target: str, wanted: tuple[str, ...]) -> None:
    for part in wanted:
        if not fs.is_missing(f"{source}/{part}"):
            os.makedirs(os.path.dirname(f"{target}/{part}"), 0o711, exist_ok=True)
            apart.copy(f"{source}/{part}", f"{target}/{part}")


@contextlib.contextmanager
def _staged(path: str) -> Iterator[str]:
    """A directory that is gone afterwards, unless it was given another name."""
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        remove_tree(path)


@contextlib.contextmanager
def _undisturbed(box: Box) -> Iterator[None]:
    """Nobody applies changes of a review meanwhile."""
    lock = f"{box.directory}/review/state/lock"
    with fs.FileLock(lock) if not fs.is_missing(os.path.dirname(lock)) else contextlib.nullcontext():
        yield


# -- using -------------------------------------------------------------------------------------------------------------


async def find(runtime: Runtime, word: str) -> tuple[Box, CheckpointRow]:
    """By BOX@NAME."""
    name, _, wanted = word.partition("@")
    box = runtime.find(name)
    found = [row for row in await runtime.register.checkpoints(box) if wanted in {row.name, row.id}]
    if not found:
        hint = f"`paddock checkpoint ls {box.name}` lists them"
        raise UserError(f"{box.name} has no checkpoint {wanted[:80]!r}", hint=hint, code="no-checkpoint")
    return box, found[0]


async def restore(runtime: Runtime, word: str, *, stop: bool = False) -> CheckpointInfo:
    """Put a box back; what it did since is gone."""
    box, row = await find(runtime, word)
    async with box.lock:
        await _rest(runtime, box, stop=stop)
        await _to_its_end(_restore(runtime, box, row))
    return _info(box, row)


async def _restore(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    layers = Layers(runtime.paths.layers)
    incoming = f"{box.directory}/{INCOMING}"
    stored = layers.tree(LayerId(row.storage))

    def stage() -> None:
        with layers.lease() as lease:
            _keep(layers, lease, row)
            with _staged(f"{lease.staging}/storage") as copy:
                _copy_parts(stored, copy, parts(box.row.spec))
                os.rename(copy, incoming)

    await asyncio.to_thread(remove_tree, incoming)
    try:
        await asyncio.to_thread(stage)
        await runtime.register.begin_restore(box, row)
    except BaseException:
        await asyncio.to_thread(remove_tree, incoming)
        raise
    await _finish_restore(runtime, box, stored)


async def _finish_restore(runtime: Runtime, box: Box, stored: str) -> None:
    """Until it is done the box cannot start (lifetimes.py): there may be something in `incoming`."""
    moved = await asyncio.to_thread(_place, box, stored, runtime.paths.trash)
    await runtime.register.end_restore(box)
    await asyncio.to_thread(remove_tree, f"{box.directory}/{INCOMING}")
    for path in moved:
        runtime.background.sweep(remove_tree, path)


def _place(box: Box, stored: str, trash: str) -> list[str]:
    """Give a box the files that wait in `incoming`, and none for its root; returns where those it had are now.

    What was done before a crash is not done again.
    """
    incoming = f"{box.directory}/{INCOMING}"
    moved = []
    with _undisturbed(box):
        for part in parts(box.row.spec):
            waits, is_part = not fs.is_missing(f"{incoming}/{part}"), not fs.is_missing(f"{stored}/{part}")
            if waits or not is_part:
                moved.append(apart.discard(f"{box.directory}/{part}", trash))
            if waits:
                os.makedirs(os.path.dirname(f"{box.directory}/{part}"), 0o711, exist_ok=True)
                apart.move(f"{incoming}/{part}", f"{box.directory}/{part}")
        moved.append(apart.discard(f"{box.directory}/{_UPPER}", trash))
    fs.sync_directory(box.directory)
    return moved


async def settle(runtime: Runtime, store: Store) -> None:
    """After a crash: finish what was begun, or let it not have been. Nobody waits for what cannot be written."""
    rows = {row.id: row for row in store.checkpoints()}
    restoring = store.restores()
    begun = {row.box: row for row in rows.values() if not row.is_whole}
    for box in list(runtime.boxes.values()):
        try:
            if box.row.id in begun:
                await _settle_freezing(runtime, box, begun[box.row.id])
            if box.row.id in restoring:
                row = rows[restoring[box.row.id]]
                await _finish_restore(runtime, box, Layers(runtime.paths.layers).tree(LayerId(row.storage)))
                runtime.repairs.append(f"box {box.name}: restored to {row.name}")
            elif not fs.is_missing(f"{box.directory}/{INCOMING}"):
                await asyncio.to_thread(remove_tree, f"{box.directory}/{INCOMING}")
        except (OSError, PaddockError) as error:
            runtime.repairs.append(f"box {box.name}: a checkpoint or restore that was under way: {error}")


async def _settle_freezing(runtime: Runtime, box: Box, row: CheckpointRow) -> None:
    layers = Layers(runtime.paths.layers)
    if not layers.has(LayerId(row.last)):
        await runtime.register.drop_checkpoint(box, row.id)
        return
    try:
        await runtime.register.finish_checkpoint(box, row)
    except BaseException:
        await _unfreeze(layers, box, row)  # else the box would start without what it did
        raise


async def _unfreeze(layers: Layers, box: Box, row: CheckpointRow) -> None:
    if row.root and row.root != box.row.spec.layers and layers.has(LayerId(row.last)):
        await asyncio.to_thread(layers.thaw, LayerId(row.last), f"{box.directory}/{_UPPER}", apart.move)


async def fork(runtime: Runtime, word: str, count: int = 1, *, stop: bool = False) -> list[Box]:
    """Boxes that begin as a box is, or as it was at a checkpoint; none of them is heard of by another."""
    if not 1 <= count <= limits.FORKS_AT_ONCE:
        raise UserError(f"1 to {limits.FORKS_AT_ONCE} forks at once", code="usage")
    if "@" in word:
        box, row = await find(runtime, word)
        return await _fork(runtime, box, row, count)
    box = runtime.find(word)
    async with box.lock:
        await _rest(runtime, box, stop=stop)
        row = await _to_its_end(_freeze(runtime, box, f"fork.{secrets.token_hex(4)}"))
    try:
        return await _fork(runtime, box, row, count)
    finally:
        await runtime.register.drop_checkpoint(box, row.id)


async def _fork(runtime: Runtime, box: Box, row: CheckpointRow, count: int) -> list[Box]:
    layers = Layers(runtime.paths.layers)
    spec = _forked(box.row.spec, row)
    made: list[Box] = []
    with layers.lease() as lease:
        _keep(layers, lease, row)
        try:
            for number in range(count):
                copy = f"{lease.staging}/fork{number}"
                with _staged(copy):
                    await asyncio.to_thread(_copy_parts, layers.tree(LayerId(row.storage)), copy, parts(spec))
                    made.append(await runtime.add(box, spec, _Filling(copy, box.directory, parts(spec))))
        except BaseException:
            for one in made:
                await runtime.lifetimes.undo(one)
            raise
    return made


class _Filling:
    """Gives a new box its copy."""

    def __init__(self, copy: str, old: str, wanted: tuple[str, ...]) -> None:
        self._copy, self._old, self._parts = copy, old, wanted

    def __call__(self, directory: str) -> None:
        for part in self._parts:  # the home is the last of them: before it, nobody has heard of the box
            if fs.is_missing(f"{self._copy}/{part}"):
                continue
            os.makedirs(os.path.dirname(f"{directory}/{part}"), 0o711, exist_ok=True)
            apart.move(f"{self._copy}/{part}", f"{directory}/{part}")
            if part == GIT:
                gitdir.relocate(f"{directory}/{GIT}", f"{self._old}/{GIT}")
        fs.sync_directory(directory)


def _forked(spec: BoxSpec, row: CheckpointRow) -> BoxSpec:
    """The same box in all but its name, what of it is on the host's ports, and the branch that it began with."""
    return replace(
        spec,
        name=f"{spec.name[: limits.NAME_CHARS - 10]}-fork",
        layers=row.root or spec.layers,
        network=replace(spec.network, publish=()),
        branch=workspaces.branch_of(spec) if spec.mode is WorkspaceMode.CLONE else spec.branch,
    )


def _keep(layers: Layers, lease: Lease, row: CheckpointRow) -> None:
    for layer in (row.storage, *row.root):
        if not layer.startswith("/") and not layers.keep(lease, LayerId(layer)):
            layers.tree(LayerId(layer))  # says that there is none


# -- looking -----------------------------------------------------------------------------------------------------------


async def listed(runtime: Runtime, box: Box | None = None) -> list[CheckpointInfo]:
    rows = await runtime.register.checkpoints(box)
    return [_info(runtime.boxes[row.box], row) for row in rows if row.box in runtime.boxes]


def _info(box: Box, row: CheckpointRow) -> CheckpointInfo:
    held = tuple(dict.fromkeys(part.partition("/")[0] for part in parts(box.row.spec)))
    return CheckpointInfo(
        box=box.name,
        name=row.name,
        id=row.id,
        created_at=row.created_at,
        parts=(*(("root",) if row.root else ()), *held),
    )


async def difference(runtime: Runtime, one: str, other: str) -> tuple[list[DifferenceInfo], bool]:
    """From one to the other, each BOX@NAME, or BOX as it is now; and whether these are all."""
    shown: list[DifferenceInfo] = []
    is_all = True
    async with contextlib.AsyncExitStack() as held:
        before, after = [await _trees(runtime, word, held) for word in dict.fromkeys((one, other))] * (
            1 + (one == other)
        )
        for part in sorted({*before, *after}):
            sides = before.get(part, []), after.get(part, [])
            found, whole = await asyncio.to_thread(apart.differences, *sides, _SHOWN_MAX)
            shown += [DifferenceInfo(kind=item.kind, path=f"{_SHOWN[part]}{item.path}") for item in found]
            is_all = is_all and whole
    return shown, is_all


async def _trees(runtime: Runtime, word: str, held: contextlib.AsyncExitStack) -> dict[str, list[str]]:
    """The layers of each part of a side."""
    layers = Layers(runtime.paths.layers)
    if "@" in word:
        _, row = await find(runtime, word)
        _keep(layers, held.enter_context(layers.lease()), row)
        return {_ROOT: _places(layers, row.root), **_own(layers.tree(LayerId(row.storage)))}
    box = runtime.find(word)
    await held.enter_async_context(box.lock)
    await _rest(runtime, box, stop=False)
    upper = f"{box.directory}/{_UPPER}"
    changed = [upper] if box.row.spec.layers and not fs.is_missing(upper) else []
    return {_ROOT: [*_places(layers, box.row.spec.layers), *changed], **_own(box.directory)}


def _own(place: str) -> dict[str, list[str]]:
    return {part: [f"{place}/{part}"] for part in _SHOWN if part != _ROOT and not fs.is_missing(f"{place}/{part}")}


def _places(layers: Layers, chain: tuple[str, ...]) -> list[str]:
    return [layer if layer.startswith("/") else layers.tree(LayerId(layer)) for layer in chain]


async def usage(runtime: Runtime) -> list[LayerUsage]:
    """May take long."""

    def measure() -> list[LayerUsage]:
        found = Layers(runtime.paths.layers).usage(runtime.register.layers())
        return [
            LayerUsage(id=one.id, disk_bytes=one.disk_bytes, is_whole=one.is_whole, is_used=one.is_used)
            for one in found
        ]

    return await asyncio.to_thread(measure)


# -- removing ----------------------------------------------------------------------------------------------------------


async def remove(runtime: Runtime, word: str) -> CheckpointInfo:
    """Boxes that were made of it, and its own, keep what they stand on."""
    box, row = await find(runtime, word)
    async with box.lock:
        await runtime.register.drop_checkpoint(box, row.id)
    await prune(runtime)
    return _info(box, row)


async def prune(runtime: Runtime) -> list[str]:
    """Remove layers that no box and no checkpoint is made of."""
    layers = Layers(runtime.paths.layers)
    gone = await runtime.discard_layers(layers)
    await asyncio.to_thread(layers.sweep, remove_tree)
    return [*gone]


async def _to_its_end(work: Coroutine[None, None, T]) -> T:
    """Who asked may leave: it is finished all the same, before anybody else has the box."""
    task = asyncio.get_running_loop().create_task(work, name="checkpoint")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise

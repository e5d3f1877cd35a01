"""In what two states of boxes differ."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.images.layers import LayerId, Layers
from paddock.reports import DifferenceInfo
from paddock.runtime import apart, boxparts, checkpoints, leasing
from paddock.runtime.bases import GIT

if TYPE_CHECKING:
    from paddock.runtime.core import Runtime

_SHOWN: Final = {
    boxparts.ROOT: "/",
    boxparts.HOME: "/home/agent/",
    boxparts.REVIEW[0]: "workspace/",
    f"{GIT}/tree": "workspace/",
}
_SHOWN_MAX: Final = 5_000  # differences


async def difference(runtime: Runtime, one: str, other: str) -> tuple[list[DifferenceInfo], bool]:
    """From one to the other, each BOX@NAME, or BOX as it is now; and whether these are all."""
    shown: list[DifferenceInfo] = []
    is_all = True
    async with contextlib.AsyncExitStack() as held:
        boxes = {box.row.id: box for word in (one, other) if "@" not in word for box in [runtime.find(word)]}
        for _, box in sorted(boxes.items()):  # each once, and in one order: somebody may compare them the other way
            await held.enter_async_context(box.lock)
        before, after = [await _trees(runtime, word, held) for word in (one, other)]
        for part in sorted({*before, *after}):
            sides = before.get(part, []), after.get(part, [])
            found, whole = await asyncio.to_thread(apart.differences, *sides, _SHOWN_MAX)
            shown += [DifferenceInfo(kind=item.kind, path=f"{_SHOWN[part]}{item.path}") for item in found]
            is_all = is_all and whole
    return shown, is_all


async def _trees(runtime: Runtime, word: str, held: contextlib.AsyncExitStack) -> dict[str, list[str]]:
    """The layers of each part of a side; the caller holds the lock of a box as it is now."""
    layers = Layers(runtime.paths.layers)
    if "@" in word:
        _, row = await checkpoints.find(runtime, word)
        await held.enter_async_context(leasing.held(layers, row))
        frozen = {boxparts.ROOT: row.root, boxparts.HOME: row.home}
        stored = _copied(layers.tree(LayerId(row.storage))) if row.storage else {}
        return stored | {part: boxparts.places(layers, chain) for part, chain in frozen.items()}
    box = runtime.find(word)
    await checkpoints.rest(runtime, box, stop=False)
    found = _copied(box.directory)
    for part, chain in boxparts.uppers(box.row.spec).items():
        changed = [upper] if not fs.is_missing(upper := f"{box.directory}/{part}") else []
        found[part] = [*boxparts.places(layers, chain), *changed]
    return found


def _copied(place: str) -> dict[str, list[str]]:
    plain = [part for part in _SHOWN if part not in {boxparts.ROOT, boxparts.HOME}]
    return {part: [f"{place}/{part}"] for part in plain if not fs.is_missing(f"{place}/{part}")}

"""Long chains are shortened beside a box's work: layers that are frozen are merged, and who stands on all of them
stands on the one from then on.

Nothing is lost at any step. The merged layer is whole before anybody hears of it, and each chain is changed by itself,
by its own row; the old layers stay as long as a chain names them: a fork, a checkpoint in their midst, a box that runs,
whose mount they are. Files are not copied (merging.py), so what stays twice takes the room of its directories.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.errors import PaddockError
from paddock.images.layers import LayerId, Layers, is_frozen
from paddock.runtime import boxparts, leasing, space, unpacking

if TYPE_CHECKING:
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

log = logging.getLogger(__name__)
_PARTS = ("root", "home")  # of a checkpoint

Chain = tuple[str, ...]


def begin(runtime: Runtime, box: Box) -> bool:
    """If one of its chains has become long, and nobody is at it; whether there is something to merge."""
    is_long = bool(_wanted(box.row.spec))
    if is_long and not box.compacting:
        box.compacting = True
        runtime.background.later(_compact(runtime, box), f"merge layers of {box.name}")
    return is_long


async def _compact(runtime: Runtime, box: Box) -> None:
    try:
        for run in _wanted(box.row.spec):
            await shorten(runtime, run)
    except (OSError, PaddockError) as error:
        log.warning("the layers of %s stay as they are: %s", box.name, error)
    finally:
        box.compacting = False


def _wanted(spec: BoxSpec) -> list[Chain]:
    """What of a box's chains is to be merged: what is long, and whatever there is when no more can be frozen."""
    is_full = len(boxparts.standing_on(spec)) >= limits.LAYERS_PER_BOX
    most = 1 if is_full else limits.COMPACT_LAYERS_MAX
    return [run for chain in boxparts.uppers(spec).values() if len(run := _own(chain, spec.base)) > most]


def _own(chain: Chain, base: str) -> Chain:
    """The end of it that was frozen since its template was made, whose layers stay those of others, too."""
    below = [number for number, layer in enumerate(chain, 1) if layer == base or not is_frozen(layer)]
    return chain[max(below, default=0) :]


async def shorten(runtime: Runtime, run: Chain) -> LayerId:
    """Merge layers that follow each other, and put the result in their place wherever they do."""
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers) as lease:
        layers.require(lease, run)
        merged = await asyncio.to_thread(unpacking.merge, layers.root, run, lease)
        await _swap_checkpoints(runtime, run, merged)
        for box in list(runtime.boxes.values()):
            await _swap_box(runtime, box, run, merged)
    await space.prune(runtime)
    return merged


async def _swap_checkpoints(runtime: Runtime, run: Chain, merged: LayerId) -> None:
    for row in await runtime.register.checkpoints():
        box = runtime.boxes.get(row.box)
        if box is None or row.memory:  # what ran in it knows its files by the layers they were in
            continue
        for part, chain in zip(_PARTS, (row.root, row.home), strict=True):
            if run in _runs(chain, len(run)):
                await runtime.register.set_chain(box, row.id, part, chain, _swapped(chain, run, merged))


async def _swap_box(runtime: Runtime, box: Box, run: Chain, merged: LayerId) -> None:
    async with box.lock:
        spec = box.row.spec
        is_there = box in runtime.register and fs.is_missing(f"{box.directory}/{boxparts.INCOMING}")
        if box.handle is not None or not is_there:
            return  # its next checkpoint sees to it
        changed = replace(
            spec,
            layers=_swapped(spec.layers, run, merged),
            home_layers=_swapped(spec.home_layers, run, merged),
        )
        if changed != spec:
            await runtime.register.change(box, changed)


def _runs(chain: Chain, length: int) -> list[Chain]:
    return [chain[first : first + length] for first in range(len(chain) - length + 1)]


def _swapped(chain: Chain, run: Chain, merged: LayerId) -> Chain:
    """A layer is in a chain once, so a run is too."""
    runs = _runs(chain, len(run))
    if run not in runs:
        return chain
    first = runs.index(run)
    return (*chain[:first], merged, *chain[first + len(run) :])

"""What of the disk is whose, and what of it nobody uses."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.engines.container.removal import remove_tree
from paddock.images import sizes
from paddock.images.layers import LayerId, Layers
from paddock.reports import SpaceInfo
from paddock.runtime import apart, boxparts

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.runtime.core import Runtime

    Chains = dict[tuple[str, str], Collection[str]]  # by kind and name

_ENTRIES_MAX, _SECONDS_MAX = 1_000_000, 5.0


async def usage(runtime: Runtime) -> list[SpaceInfo]:
    """May take long."""
    chains: Chains = {("box", box.name): boxparts.standing_on(box.row.spec) for box in runtime.boxes.values()}
    for row in await runtime.register.checkpoints():
        if row.box in runtime.boxes:
            chains["checkpoint", f"{runtime.boxes[row.box].name}@{row.name}"] = row.layers
    for template in await runtime.catalogue.listed():
        chains["template", f"{template.name}:{template.tag}"] = template.chain
    directories = {("box", box.name): box.directory for box in runtime.boxes.values()}
    return await asyncio.to_thread(_usage, runtime, chains, directories)


def _usage(runtime: Runtime, chains: Chains, directories: dict[tuple[str, str], str]) -> list[SpaceInfo]:
    layers = Layers(runtime.paths.layers)
    known = {str(layer): sizes.size(layers, layer, apart.tree_bytes) for layer in layers.whole()}
    named = runtime.register.layers()
    users = Counter(layer for chain in chains.values() for layer in {*chain})
    cached = [layer for layer in known if layer in named and layer not in users]
    found = []
    for (kind, name), chain in chains.items():
        of_store = [layer for layer in {*chain} if layer in known]
        own = [known[layer] for layer in of_store if users[layer] == 1]
        if (kind, name) in directories:
            own.append(apart.tree_bytes(directories[kind, name], _ENTRIES_MAX, _SECONDS_MAX, passing=boxparts.KERNELS))
        shared = sum(known[layer][0] for layer in of_store if users[layer] > 1)
        found.append(_info(kind, name, own, shared=shared))
    if cached:
        found.append(_info("build cache", f"{len(cached)} layers", [known[layer] for layer in cached]))
    found.append(_info("tools", "of agents", [fs.tree_bytes(runtime.paths.tools, _ENTRIES_MAX, _SECONDS_MAX)]))
    found += [_info("layer", layer, [size], is_used=layer in named) for layer, size in known.items()]
    return found


def _info(kind: str, name: str, own: list[tuple[int, bool]], *, shared: int = 0, is_used: bool = True) -> SpaceInfo:
    return SpaceInfo(
        kind=kind,  # type: ignore[arg-type]  # one of those above
        name=name,
        own_bytes=sum(size for size, _ in own),
        shared_bytes=shared,
        is_whole=all(is_whole for _, is_whole in own),
        is_used=is_used,
    )


async def prune(runtime: Runtime) -> list[LayerId]:
    """Remove layers that nothing is made of, and forget steps of builds that nobody used for long."""
    before = datetime.now(UTC) - timedelta(seconds=limits.BUILD_CACHE_S)
    await runtime.catalogue.drop_steps(before.isoformat(timespec="milliseconds"))
    layers = Layers(runtime.paths.layers)
    gone = await runtime.discard_layers(layers)
    await asyncio.to_thread(layers.sweep, remove_tree)
    return gone

"""How much of the disk layers may take, by the user's word: storage.toml.

    total = "50g"    # all layers together
    box = "10g"      # those that one box and its checkpoints are made of, without its template

Asked before anything is frozen, so the answer must take no time: it goes by what is known of sizes by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images import sizes
from paddock.images.layers import LayerId, Layers, is_frozen
from paddock.model.reference import Reference, is_path
from paddock.runtime import apart, boxparts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

_FILE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """In bytes; 0 is none."""

    total: int = 0
    box: int = 0


def read(path: str) -> Quotas:
    """UserError for a file that is none of these: a quota that is misspelt is no quota."""
    import tomllib

    try:
        with open(path, "rb") as file:
            said = tomllib.loads(file.read(_FILE_BYTES).decode())
        unknown = said.keys() - {"total", "box"}
        if unknown:
            raise UserError(f"{path}: no key {min(unknown)[:80]!r}", hint="the keys are total and box", code="config")
        return Quotas(**{key: _bytes(path, key, value) for key, value in said.items()})
    except FileNotFoundError:
        return Quotas()
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}", hint='for example: total = "50g"', code="config") from error


def _bytes(path: str, key: str, value: object) -> int:
    if not isinstance(value, str):
        raise UserError(f"{path}: {key} is no size in quotes", hint=f'for example: {key} = "50g"', code="config")
    return text.parse_size(value)


async def check(runtime: Runtime, box: Box) -> None:
    """Before a checkpoint of it. UserError at a quota, Unavailable where the disk itself is as good as full."""
    rows = await runtime.register.checkpoints(box)
    await check_store(runtime)
    made = {layer for row in rows for layer in row.layers} | {*boxparts.standing_on(box.row.spec)}
    own = made - await _given(runtime, box.row.spec.template)
    await asyncio.to_thread(_check_box, runtime, box.name, [LayerId(each) for each in own if is_frozen(each)])


async def _given(runtime: Runtime, template: str) -> set[str]:
    """Layers that no box made: of its template, and of builds, which that may have been of before it was built anew."""
    given = await runtime.catalogue.steps()
    if template and not is_path(template):
        with contextlib.suppress(PaddockError):  # it may be gone
            given |= {*(await runtime.catalogue.find(Reference.parse(template))).chain}
    return given


async def check_store(runtime: Runtime) -> None:
    """Before anything becomes a layer."""
    await asyncio.to_thread(_check_store, runtime)


@contextlib.asynccontextmanager
async def counting(runtime: Runtime) -> AsyncIterator[None]:
    """Around what makes layers and may take long: what it leaves, also if it fails, is known to the next check."""
    await _measure_all(runtime)
    await check_store(runtime)
    try:
        yield
    finally:
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # a daemon that ends does not wait: the next one begins with it
            await _measure_all(runtime)


def _check_store(runtime: Runtime) -> None:
    layers = Layers(runtime.paths.layers)
    left = free_bytes(layers.root)
    if left < limits.FREE_LEAST_BYTES:
        raise Unavailable(
            f"{text.size(left)} are left on the disk of {layers.root}",
            hint="free some space: `paddock df` shows what takes it, `paddock prune` removes what nobody uses",
            code="disk",
        )
    wanted = read(runtime.paths.storage)
    if wanted.total and (taken := _known(layers, layers.whole())) >= wanted.total:
        raise UserError(
            f"layers take {text.size(taken)} of the {text.size(wanted.total)} that they may",
            hint=f"`paddock df` shows whose they are; or allow more in {runtime.paths.storage}",
            code="quota",
        )


def _check_box(runtime: Runtime, name: str, own: list[LayerId]) -> None:
    wanted = read(runtime.paths.storage)
    if wanted.box and (taken := _known(Layers(runtime.paths.layers), own)) >= wanted.box:
        raise UserError(
            f"what {name} and its checkpoints are made of takes {text.size(taken)} of its {text.size(wanted.box)}",
            hint=f"remove checkpoints of it, or give it more in {runtime.paths.storage}",
            code="quota",
        )


def free_bytes(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _known(layers: Layers, wanted: Iterable[LayerId]) -> int:
    found = (sizes.known_size(layers, layer) for layer in wanted if layers.has(layer))
    return sum(known[0] for known in found if known is not None)


async def _measure_all(runtime: Runtime) -> None:
    await measure(runtime, await asyncio.to_thread(Layers(runtime.paths.layers).whole))


async def measure(runtime: Runtime, made: Iterable[str]) -> None:
    """What was just made: the next check knows of it. What is measured already takes no time."""
    layers = Layers(runtime.paths.layers)
    for layer in made:
        try:
            await asyncio.to_thread(sizes.size, layers, LayerId(layer), apart.tree_bytes)
        except (OSError, PaddockError):
            continue  # it may be gone by now

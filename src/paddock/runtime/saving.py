"""Templates into files, that docker load, podman load and `template load` take."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import PaddockError, UserError
from paddock.images.documents import ImageConfig
from paddock.images.export import Picture
from paddock.images.layers import LayerId, Layers
from paddock.reports import TemplateInfo
from paddock.runtime import leasing, leaving, unpacking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.model.reference import Reference
    from paddock.runtime.core import Runtime
    from paddock.store import TemplateRow

log = logging.getLogger(__name__)
_MEASURE_ENTRIES, _MEASURE_S = 1_000_000, 5.0


async def save(runtime: Runtime, reference: Reference, path: str) -> str:
    """Into a file of the caller's, which is empty; the sum of its manifest. May take long."""
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers) as lease:
        row = await runtime.catalogue.find(reference)
        layers.require(lease, row.chain)
        return await leaving.attended(write, layers, row, path)


def write(layers: Layers, row: TemplateRow, path: str) -> str:
    with empty_file(path) as fd:
        return unpacking.write_out(fd, layers.root, [picture(row)], (row.image.uid, row.image.gid))[1]


@contextlib.contextmanager
def empty_file(path: str) -> Iterator[int]:
    """Of the caller's; `path` may be a descriptor of theirs, by its name in /proc."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", code="write") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size:
            raise UserError(f"{path} is no empty file", code="write")
        yield fd
    finally:
        os.close(fd)


def picture(row: TemplateRow) -> Picture:
    config = ImageConfig.read(row.config.encode())
    return Picture(chain=tuple(map(LayerId, row.chain)), config=config, tags=(f"{row.name}:{row.tag}",))


async def listed(runtime: Runtime) -> list[TemplateInfo]:
    """One that cannot be read is left out, and its layers stay."""
    found = []
    for row in await runtime.catalogue.listed():
        try:
            found.append(info(runtime, row))
        except PaddockError as error:
            log.warning("the template %s:%s cannot be read: %s", row.name, row.tag, error)
    return found


async def inspect(runtime: Runtime, reference: Reference) -> TemplateInfo:
    """With what its layers take of the disk. May take long."""
    row = await runtime.catalogue.find(reference)
    return info(runtime, row, await asyncio.to_thread(_measured, Layers(runtime.paths.layers), row))


def info(runtime: Runtime, row: TemplateRow, disk_bytes: int = 0) -> TemplateInfo:
    config = ImageConfig.read(row.config.encode())
    name = f"{row.name}:{row.tag}"
    return TemplateInfo(
        name=name,
        source=row.source,
        digest=row.digest,
        created_at=row.created_at,
        layers=row.chain,
        boxes=tuple(box.name for box in runtime.boxes.values() if box.row.spec.template == name),
        architecture=config.architecture,
        user=row.image.user,
        workdir=config.working_dir,
        entrypoint=config.entrypoint,
        command=config.cmd,
        env_names=tuple(word.partition("=")[0] for word in config.env),
        disk_bytes=disk_bytes,
    )


def _measured(layers: Layers, row: TemplateRow) -> int:
    trees = (layers.tree(LayerId(layer)) for layer in dict.fromkeys(row.chain))
    return sum(fs.tree_bytes(tree, _MEASURE_ENTRIES, _MEASURE_S)[0] for tree in trees)

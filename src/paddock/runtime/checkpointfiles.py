"""Checkpoints into files, and boxes out of them: the files of a box, without any of its rights.

A file is an OCI layout of two images: the root, if the box had one of its own, and the home. What ran, the workspace,
mounts, policy, variables and secrets are not in it; where it is taken in, the box has what its new user says. Every
layer is checked by its sum, and of a file that is wrong in one place nothing is taken.
"""

from __future__ import annotations

import asyncio
import functools
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.images.documents import ImageConfig
from paddock.images.export import Picture
from paddock.images.layers import LayerId, Layers
from paddock.images.oci import own_architecture
from paddock.model import EngineName, ImageRun
from paddock.runtime import (
    boxparts,
    boxsaving,
    checkpoints,
    leasing,
    leaving,
    loading,
    quotas,
    saving,
    templates,
    unpacking,
)

if TYPE_CHECKING:
    from paddock.images.leases import Lease
    from paddock.model import BoxRequest, BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import CheckpointRow

_ROOT, _HOME = "checkpoint-root", "checkpoint-home"


async def write(runtime: Runtime, word: str, path: str) -> str:
    """A checkpoint into an empty file of the caller's; the sum of its first manifest. May take long."""
    box, row = await checkpoints.find(runtime, word)
    boxsaving.require_no_login(box)
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers, row) as lease:
        pictures = await _pictures(runtime, box, row, layers, lease)
        image = box.row.spec.image
        with saving.empty_file(path) as fd:
            write_out = functools.partial(unpacking.write_out, for_docker=False)
            _, digest = await leaving.attended(write_out, fd, layers.root, pictures, (image.uid, image.gid))
            return digest


async def _pictures(runtime: Runtime, box: Box, row: CheckpointRow, layers: Layers, lease: Lease) -> list[Picture]:
    spec = box.row.spec
    home = Picture(
        chain=tuple(map(LayerId, row.home)),
        config=ImageConfig(architecture=own_architecture(), diff_ids=()),
        tags=(_HOME,),
        one_owner=True,  # it is its user's, whoever that is where it is taken in
    )
    if not row.root:
        return [home]
    chain = await asyncio.to_thread(boxsaving.of_the_store, layers, lease, row.root, spec.template_id)
    root = Picture(
        chain=tuple(map(LayerId, chain)),
        config=await boxsaving.config_of(runtime, spec, chain),
        tags=(_ROOT,),
        unnamed=boxparts.mounted_on(spec),
    )
    return [root, home]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    home: tuple[str, ...]
    root: tuple[str, ...] = ()
    image: ImageRun = field(default_factory=ImageRun)


async def take(runtime: Runtime, path: str, request: BoxRequest) -> Box:
    """A new box with what is in a file, and otherwise as it is asked for. May take long."""
    if request.template or request.ephemeral or request.secrets or request.mcp:
        hint = "make it first; secrets are lent to it by `paddock run`"
        raise UserError("a box of a checkpoint has its root from it, and stays", hint=hint, code="usage")
    layers = Layers(runtime.paths.layers)
    async with quotas.counting(runtime), leasing.held(layers) as lease:
        found = await leaving.attended(_unpack, path, layers, lease)
        fill = functools.partial(boxparts.renew, layers)  # nobody has heard of the box before it has its home
        return await runtime.create_with(request, lambda spec: _made_of(spec, found, path), fill)


def _unpack(path: str, layers: Layers, lease: Lease) -> _Found:
    with loading.opened(path, layers.root) as fd:
        home = unpacking.unpack(fd, layers.root, lease=lease, tags=(_HOME, _ROOT))
        if _ROOT not in home.beside:
            templates.require_few(home.layers)
            return _Found(home=home.layers)
        root, image = templates.unpacked(fd, layers, lease, (_ROOT, _HOME))
        templates.require_few((*home.layers, *root.layers))
    return _Found(home=home.layers, root=root.layers, image=image)


def _made_of(spec: BoxSpec, found: _Found, path: str) -> BoxSpec:
    if not found.root:
        return replace(spec, home_layers=found.home)
    return replace(
        spec,
        engine=EngineName.CONTAINER,
        template=os.path.abspath(path),
        layers=found.root,
        home_layers=found.home,
        image=found.image,
        env={**templates.variables(found.image.env), **spec.env},
    )

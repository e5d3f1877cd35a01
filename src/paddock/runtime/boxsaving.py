"""The root of a box as a template, or as a file: what it was made of, and all that the box changed in it.

Only the root: the box's home (/home/agent), where agents keep what they know of their user, its workspace, its policy
and its secrets are no part of it. Variables are those of the image it was made of, never the user's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import Unavailable, UserError
from paddock.images import ownership, pack
from paddock.images.documents import ImageConfig
from paddock.images.layers import LayerId, Layers
from paddock.images.oci import own_architecture
from paddock.model import EngineName
from paddock.model.reference import Reference, is_path
from paddock.readiness import to_its_end
from paddock.runtime import checkpoints, forms, freezing, leasing, saving, steptargets
from paddock.store import TemplateRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.images.leases import Lease
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime


async def save(runtime: Runtime, box: Box, reference: Reference, path: str = "", *, stop: bool = False) -> TemplateRow:
    """As a template, which replaces what has this name; or into an empty file, if there is one. May take long.

    UserError while a command runs in the box, unless it may be stopped.
    """
    _require_root(box)
    require_no_login(box)
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers) as lease:
        async with box.lock:
            freezing.check(runtime, box)
            await checkpoints.rest(runtime, box, stop=stop)
            work = freezing.freeze(runtime, box, freezing.passing_name("save"), lease)
            frozen = await to_its_end(freezing.passing(runtime, box, lease, work))
        freezing.follow(runtime, box, frozen)
        chain = await asyncio.to_thread(of_the_store, layers, lease, frozen.root, box.row.spec.template_id)
        row = TemplateRow(
            name=reference.name,
            tag=reference.tag,
            chain=chain,
            config=(await config_of(runtime, box.row.spec, chain)).to_json().decode(),
            image=box.row.spec.image,
            source="box",
        )
        if not path:
            return await runtime.catalogue.add(row, replacing=True)
        return replace(row, digest=await asyncio.to_thread(saving.write, layers, row, path))


def _require_root(box: Box) -> None:
    spec = box.row.spec
    if spec.engine is not EngineName.CONTAINER:
        hint = "`paddock checkpoint create` keeps its home; a box made with -t has a root of its own"
        raise UserError(f"{box.name} is a {spec.engine.value} box: its root is the host's", hint=hint, code="no-root")


def require_no_login(box: Box) -> None:
    """What goes out may go anywhere from there, and a token is of use to whoever finds it."""
    if box.row.spec.logins:
        raise UserError(
            f"{box.name} may hold a token: {', '.join(box.row.spec.logins)} could log in in it",
            hint="what leaves must have no secret inside; go on in a box that was made without --allow-login",
            code="has-login",
        )


def of_the_store(layers: Layers, lease: Lease, chain: tuple[str, ...], pinned: tuple[int, ...] = ()) -> tuple[str, ...]:
    """A directory of the user's that a box was made of becomes a layer: it may change, or go. `pinned`: which it is."""
    return tuple(_packed(layers, lease, layer, pinned) if layer.startswith("/") else layer for layer in chain)


def _packed(layers: Layers, lease: Lease, directory: str, pinned: tuple[int, ...]) -> LayerId:
    with forms.archive(lease) as place:
        with _opened(directory, pinned) as root, steptargets.created(place) as fd:
            pack.pack(root, steptargets.Roomy(fd), ownership.of_caller())
        return forms.added(layers, lease, place)


@contextlib.contextmanager
def _opened(directory: str, pinned: tuple[int, ...]) -> Iterator[int]:
    """As a box starts on it (engines/container/root.py): another in its place would be given away as the box's root."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with fs.opened_beneath(top, directory.lstrip("/"), os.O_RDONLY | os.O_DIRECTORY) as root:
            status = os.fstat(root)
            if pinned and (status.st_dev, status.st_ino) != pinned:
                message = f"the template {directory} was replaced since the box was made"
                raise Unavailable(message, hint="put it back, or make the box anew", code="replaced")
            yield root
    finally:
        os.close(top)


async def config_of(runtime: Runtime, spec: BoxSpec, chain: tuple[str, ...]) -> ImageConfig:
    """That of the template, if it is still the one that the box was made of; else what the box knows of it."""
    if spec.template and not is_path(spec.template):
        reference = Reference.parse(spec.template)
        if await runtime.catalogue.has(reference):
            row = await runtime.catalogue.find(reference)
            if chain[: len(row.chain)] == row.chain and row.image == spec.image:
                return replace(ImageConfig.read(row.config.encode()), diff_ids=())
    image = spec.image
    return ImageConfig(
        architecture=own_architecture(),
        diff_ids=(),
        env=image.env,
        entrypoint=image.entrypoint,
        cmd=image.command,
        user=image.user,
        working_dir=image.workdir,
    )

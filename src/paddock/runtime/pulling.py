"""Templates from registries and into them, by skopeo in a box of its own (errands.py)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import UserError
from paddock.images.documents import INDEX_TYPES, MANIFEST_TYPES, Descriptor, ImageConfig, digest_of, document
from paddock.images.layers import Layers
from paddock.images.tar import refused
from paddock.limits import IMAGE_DOCUMENT_BYTES
from paddock.model.reference import Reference
from paddock.runtime import builtins, errands, leasing, leaving, loading, quotas, saving, unpacking

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.remote import Remote
    from paddock.runtime.core import Runtime
    from paddock.runtime.errands import Errand
    from paddock.store import TemplateRow

_SOURCE: Final = "registry"
_TOP, _IMAGE, _FILE = "top.json", "image", "image.tar"


def _pull(words: Callable[[str], str]) -> str:
    """The manifest that the name means, then the image for this machine as the registry has it."""
    return (
        f'skopeo --insecure-policy inspect --raw {words("")} "$IMAGE" > {_TOP}; '
        f'skopeo --insecure-policy --tmpdir . copy -q {words("src-")} "$IMAGE" dir:{_IMAGE}'
    )


def _push(words: Callable[[str], str]) -> str:
    return (
        f'skopeo --insecure-policy --tmpdir . copy -q {words("dest-")} oci-archive:{_FILE} "$IMAGE"; '
        f'skopeo --insecure-policy inspect --raw {words("")} "$IMAGE" > {_TOP}'
    )


async def pull(runtime: Runtime, remote: Remote, errand: Errand, name: str = "") -> TemplateRow:
    """A template of an image. It replaces what has the given name, or its own if that came from a registry too."""
    reference = Reference.parse(name) if name else remote.local
    if not name:
        await _require_free(runtime, reference)
    layers = Layers(runtime.paths.layers)
    async with quotas.counting(runtime), leasing.held(layers) as lease:
        place = errands.directory(lease.staging)
        await errands.run(runtime, remote, errand, _pull, place)
        digest, manifest = await asyncio.to_thread(verified, place, remote)
        found, image = await leaving.attended(loading.pulled, f"{place}/{_IMAGE}", manifest, layers, lease)
        row = replace(loading.row_of(reference, found, image, _SOURCE), digest=digest)
        return await runtime.catalogue.add(row, replacing=True, of="" if name else _SOURCE)


async def _require_free(runtime: Runtime, reference: Reference) -> None:
    builtins.refuse(reference)
    if await runtime.catalogue.has(reference) and (await runtime.catalogue.find(reference)).source != _SOURCE:
        hint = "choose another name: -t NAME:TAG"
        raise UserError(f"there is a template {reference} of your own", hint=hint, code="exists")


def verified(place: str, remote: Remote) -> tuple[str, bytes]:
    """The sum of what the name means, and the manifest of the image that was fetched, which it names."""
    top, manifest = _read(place, _TOP), _read(place, f"{_IMAGE}/manifest.json")
    digest, own = digest_of(top), digest_of(manifest)
    if remote.digest and remote.digest != digest:
        raise refused(f"the registry sent {digest}, and not {remote.digest}", str(remote))
    if own != digest:
        listed = document(top, "the list of images").each("manifests")
        entries = [Descriptor.read(item, INDEX_TYPES + MANIFEST_TYPES) for item in listed]
        if own not in {entry.digest for entry in entries}:
            raise refused("the image is not the one that its name means, or the name was moved meanwhile", str(remote))
    return digest, manifest


async def push(runtime: Runtime, reference: Reference, remote: Remote, errand: Errand) -> str:
    """Send a template to a registry; the sum of its manifest there. May take long."""
    if remote.digest:
        raise UserError(f"a template is sent under a name, and not to {remote}", hint="HOST/NAME:TAG", code="bad-image")
    layers = Layers(runtime.paths.layers)
    async with leasing.held(layers) as lease:
        row = await runtime.catalogue.find(reference)
        layers.require(lease, row.chain)
        place = errands.directory(lease.staging)
        config = await leaving.attended(_write, layers, row, f"{place}/{_FILE}")
        await errands.run(runtime, remote, errand, _push, place)
        return await asyncio.to_thread(_arrived, place, config, remote)


def _write(layers: Layers, row: TemplateRow, path: str) -> ImageConfig:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        owner = row.image.uid, row.image.gid
        return unpacking.write_out(fd, layers.root, [saving.picture(row)], owner, keeps_room=True)[0]
    finally:
        os.close(fd)


def _arrived(place: str, config: ImageConfig, remote: Remote) -> str:
    """Layers are compressed on the way, but what the image is has the sum that we know."""
    top = _read(place, _TOP)
    sent = digest_of(config.to_json())
    there = document(top, "the manifest").within("config").text("digest")
    if there != sent:
        raise refused("the registry has another image under this name than was sent", str(remote))
    return digest_of(top)


def _read(place: str, name: str) -> bytes:
    """A file that the box wrote."""
    with fs.opened_directory(place) as root:
        try:
            return fs.read_beneath(root, name, IMAGE_DOCUMENT_BYTES)
        except OSError as error:
            raise refused(f"it brought no image: {error.strerror}", name) from error

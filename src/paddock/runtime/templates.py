"""What a container box's root is made of: a template by name, a directory of the host's, or the image in a file."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.guest import accounts
from paddock.errors import UserError
from paddock.images import lookup
from paddock.images.documents import ImageConfig, env_pairs
from paddock.images.layers import Layers
from paddock.limits import LAYERS_PER_BOX
from paddock.model import ImageRun
from paddock.model.reference import Reference, is_path
from paddock.runtime import tooling, unpacking
from paddock.store import TemplateRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from paddock.images.layers import LayerId
    from paddock.images.leases import Lease
    from paddock.model import BoxSpec
    from paddock.runtime.box import Box
    from paddock.runtime.catalogue import Catalogue
    from paddock.runtime.unpacking import Unpacked

    Rooted = Callable[[BoxSpec], BoxSpec]  # gives a spec the root of an image


async def resolve(catalogue: Catalogue, place: str, spec: BoxSpec) -> BoxSpec:
    """The spec with its layers, which are in the store at `place` by now. May take long."""
    if is_path(spec.template):
        return await asyncio.to_thread(resolved, place, spec)
    return named(await catalogue.find(Reference.parse(spec.template)), spec)


def refuse_planted(spec: BoxSpec, boxes: Iterable[Box]) -> None:
    """UserError for a directory that a box can write to: it would be somebody else's root tomorrow."""
    if not is_path(spec.template) or not os.path.isdir(spec.template):
        return
    for name, one in ((spec.name, spec), *((box.name, box.row.spec) for box in boxes)):
        for place in tooling.writable(one):
            if fs.is_beneath(spec.template, place) or fs.is_beneath(place, spec.template):
                raise UserError(
                    f"the template {spec.template} lies in {place}, where the box {name!r} could change it",
                    hint="copy it to a directory that no box has, or keep it in a template: `paddock template --help`",
                    code="bad-template",
                )


def refuse_planting(spec: BoxSpec, boxes: Iterable[Box]) -> None:
    """The other way round: UserError for a new box that could write to the directory that another has as its root."""
    for place in tooling.writable(spec):
        for box in boxes:
            own = box.row.spec.template
            if own not in box.row.spec.layers[:1] or not is_path(own):
                continue
            if fs.is_beneath(own, place) or fs.is_beneath(place, own):
                raise UserError(
                    f"{place} is no workspace or mount for another box: {own}, the root of {box.name!r}, could be"
                    " changed there",
                    hint=f"remove {box.name}, or make it of a template: `paddock template --help`",
                    code="bad-template",
                )


def named(row: TemplateRow, spec: BoxSpec) -> BoxSpec:
    config = ImageConfig.read(row.config.encode())
    return replace(spec, layers=row.chain, env={**variables(config.env), **spec.env}, image=row.image)


def row_of(reference: Reference, config: ImageConfig, chain: Sequence[LayerId], place: str) -> TemplateRow:
    """A template of these layers of the store at `place`."""
    image = run_of(config, list(map(Layers(place).tree, chain)))
    return TemplateRow(
        name=reference.name, tag=reference.tag, chain=tuple(chain), config=config.to_json().decode(), image=image
    )


def resolved(place: str, spec: BoxSpec) -> BoxSpec:
    """The same where the template is a place."""
    if os.path.isdir(spec.template):
        if os.path.lexists(f"{spec.template}/oci-layout"):
            hint = f"`paddock template load -t NAME {spec.template}`, and name that"
            raise UserError(f"{spec.template} is an OCI layout, and no root", hint=hint, code="bad-template")
        status = os.stat(spec.template)
        return replace(spec, layers=(spec.template,), template_id=(status.st_dev, status.st_ino))
    with _image(spec.template) as fd:
        return _rooted(unpacked(fd, Layers(place)), spec)


def is_file(word: str) -> bool:
    """Whether what it says is the image in a file, to be unpacked."""
    return is_path(word) and not os.path.isdir(word)


def from_file(layers: Layers, lease: Lease, path: str) -> Rooted:
    """The image of a file, which stays while the lease lasts. May take long."""
    with _image(path) as fd:
        return functools.partial(_rooted, unpacked(fd, layers, lease))


def _rooted(found: tuple[Unpacked, ImageRun], spec: BoxSpec) -> BoxSpec:
    of_file, image = found
    return replace(spec, layers=of_file.layers, env={**variables(of_file.config.env), **spec.env}, image=image)


@contextlib.contextmanager
def _image(path: str) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        hint = "give a directory, or a file that `docker save` or skopeo wrote"
        raise UserError(f"no template at {path}: {error.strerror}", hint=hint, code="no-template") from error
    try:
        yield fd
    finally:
        os.close(fd)


def unpacked(
    fd: int, layers: Layers, lease: Lease | None = None, tags: Sequence[str] = ()
) -> tuple[Unpacked, ImageRun]:
    """The image of an open file, as its user's boxes see it; its layers stay while the lease lasts. May take long."""
    found = unpacking.unpack(fd, layers.root, lease=lease, tags=tags)
    require_few(found.layers)
    image = run_of(found.config, list(map(layers.tree, found.layers)))
    if unpacking.is_mapped() and (image.uid or image.gid):  # whose the files are can be told only now
        found = unpacking.unpack(fd, layers.root, (image.uid, image.gid), lease, tags)
    return found, image


def require_few(layers: Sequence[str]) -> None:
    """UserError for more layers than a box can be made of, beside its own."""
    if len(layers) >= LAYERS_PER_BOX:
        hint = "make it anew with fewer: docker build --squash, or a FROM scratch that copies it"
        raise UserError(f"it has {len(layers)} layers, at most {LAYERS_PER_BOX - 1}", hint=hint, code="too-many")


def run_of(config: ImageConfig, trees: list[str]) -> ImageRun:
    """Its user is a number by now: whose the box's own files are must be known before there is a box."""
    user = accounts.Account("root", 0, 0, (), "/root")
    if config.user:
        passwd, group = (lookup.read(trees, path, accounts.FILE_BYTES) for path in ("etc/passwd", "etc/group"))
        try:
            user = accounts.find(config.user, passwd, group)
        except accounts.Unknown as error:
            raise UserError(f"the image runs as {config.user[:80]!r}: {error}", code="bad-user") from error
    return ImageRun(
        user=_called(user, config.user),
        uid=user.uid,
        gid=user.gid,
        entrypoint=config.entrypoint,
        command=config.cmd,
        workdir=config.working_dir,
        env=config.env,
        home=os.path.normpath(user.home),
        path=env_pairs(config.env).get("PATH", ""),
    )


def _called(user: accounts.Account, words: str) -> str:
    _, colon, group = words.partition(":")
    return f"{user.name}{colon}{group}" if user.uid or colon else ""


def variables(words: tuple[str, ...]) -> dict[str, str]:
    """An image's own, but for those that the box has of its own: its PATH has the agent's tools on it."""
    return {key: value for key, value in env_pairs(words).items() if key not in {"PATH", "HOME"}}

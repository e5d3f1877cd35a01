"""What a container box's root is made of: a directory of the host's, or the image in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.engines.guest import accounts
from paddock.errors import UserError
from paddock.images import lookup
from paddock.images.layers import Layers
from paddock.model import ImageRun
from paddock.runtime import unpacking

if TYPE_CHECKING:
    from paddock.images.documents import ImageConfig
    from paddock.model import BoxSpec


def resolved(place: str, spec: BoxSpec) -> BoxSpec:
    """The spec with its layers, which are in the store at `place` by now. May take long."""
    if os.path.isdir(spec.template):
        return replace(spec, layers=(spec.template,))
    try:
        fd = os.open(spec.template, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        hint = "give a directory, or a file that `docker save` or skopeo wrote"
        raise UserError(f"no template at {spec.template}: {error.strerror}", hint=hint, code="no-template") from error
    try:
        return _loaded(fd, Layers(place), spec)
    finally:
        os.close(fd)


def _loaded(fd: int, layers: Layers, spec: BoxSpec) -> BoxSpec:
    found = unpacking.unpack(fd, layers.root)
    image = _run(found.config, list(map(layers.tree, found.layers)))
    if unpacking.is_mapped() and (image.uid or image.gid):  # whose the files are can be told only now
        found = unpacking.unpack(fd, layers.root, (image.uid, image.gid))
    return replace(spec, layers=found.layers, env={**_variables(found.config.env), **spec.env}, image=image)


def _run(config: ImageConfig, trees: list[str]) -> ImageRun:
    """Its user is a number by now: whose the box's own files are must be known before there is a box."""
    user = accounts.Account("root", 0, 0)
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
    )


def _called(user: accounts.Account, words: str) -> str:
    _, colon, group = words.partition(":")
    return f"{user.name}{colon}{group}" if user.uid or colon else ""


def _variables(words: tuple[str, ...]) -> dict[str, str]:
    """An image's own; what is none of the form K=V is left out."""
    return dict(word.split("=", 1) for word in words if word.partition("=")[1])

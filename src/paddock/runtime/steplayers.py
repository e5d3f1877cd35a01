"""What a step of a build leaves, as a layer of the store: of a RUN what its box changed, of a COPY or a WORKDIR what is
unpacked like any archive. All of it is on disk before it is told.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import codec
from paddock.engines.container import ids
from paddock.images import ownership, pack
from paddock.images.context import Context
from paddock.images.dockerlines import wrong
from paddock.images.layers import Layers, new_frozen_id
from paddock.images.sources import Directory
from paddock.runtime import apart, flushing, forms, steptargets, unpacking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paddock.images.build import CopyStep, DirectoryStep
    from paddock.images.context import Target
    from paddock.images.dockerignore import Dockerignore
    from paddock.images.layers import LayerId
    from paddock.images.leases import Lease


class StepLayers:
    """`directory` is the build directory, open; `proceed` raises when nobody waits for the build any more."""

    def __init__(
        self, layers: Layers, lease: Lease, directory: int, ignore: Dockerignore, proceed: Callable[[], None]
    ) -> None:
        self._layers = layers
        self._lease = lease
        self._context = Context(Directory(directory), ignore, proceed)
        self._proceed = proceed

    def __repr__(self) -> str:
        return f"<StepLayers {self._layers!r}>"

    def upper(self) -> str:
        """Where a box's changes are to be put."""
        return f"{self._lease.staging}/{os.urandom(8).hex()}"

    def frozen(self, upper: str) -> LayerId:
        """What is at `upper` by now, without what only our mounts left there."""
        apart.tidy(upper)
        flushing.sync(os.path.dirname(upper))
        layer = new_frozen_id()
        self._layers.freeze(self._lease, upper, layer, ids.of_caller(0).owners, apart.move)
        return layer

    def digest(self, step: CopyStep) -> str:
        """The sum of what a COPY takes of the build directory."""
        copy = step.copy
        return self._context.digest(replace(copy, is_add=False) if self._context.is_archive(copy) else copy)

    def copied(self, chain: Sequence[LayerId], step: CopyStep, content: str) -> LayerId:
        """`content` is the digest by which it will be found again: what is there by now must have it."""
        copy = step.copy
        target = apart.target(self._trees(chain), step.target, copy.chown)
        target = replace(target, mode=int(copy.chmod, 8) if copy.chmod else None)
        with forms.archive(self._lease) as place:
            if step.source is not None:
                words = json.dumps(codec.to_wire(copy))
                apart.write_copy(self._trees(step.source.chain), words, target, place)
                return forms.added(self._layers, self._lease, place)
            unpacks = self._context.is_archive(copy)
            with steptargets.created(place) as fd:
                sink = steptargets.Sink(fd, self._proceed)
                taken = self._context.write_archive(copy, sink) if unpacks else self._context.write(copy, target, sink)
            if taken != content:
                hint = "a box may be at work there; again, when it rests"
                raise wrong(step.line, "the build directory changed while it was read", hint)
            return self._nested(place, target, step) if unpacks else forms.added(self._layers, self._lease, place)

    def _nested(self, place: str, target: Target, step: CopyStep) -> LayerId:
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            words = steptargets.target_text(target)
            is_owned = bool(step.copy.chown)
            return unpacking.add_nested(fd, self._layers.root, words, self._lease, is_owned=is_owned)
        finally:
            os.close(fd)

    def directory(self, chain: Sequence[LayerId], step: DirectoryStep) -> LayerId:
        target = apart.target(self._trees(chain), f"{step.path}/", step.user)
        with forms.archive(self._lease) as place:
            with steptargets.created(place) as fd:
                steptargets.write_directories(fd, target, target.owner)
            return forms.added(self._layers, self._lease, place)

    def of_tree(self, tree: int) -> LayerId:
        """A directory of the user's as a layer."""
        with forms.archive(self._lease) as place:
            with steptargets.created(place) as fd:
                pack.pack(tree, steptargets.Sink(fd, self._proceed), ownership.of_caller())
            return forms.added(self._layers, self._lease, place)

    def _trees(self, chain: Sequence[LayerId]) -> list[str]:
        return [self._layers.tree(layer) for layer in chain]

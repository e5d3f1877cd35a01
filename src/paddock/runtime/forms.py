"""The same layer for another user: whose the files of a caller with subordinate ids are on disk depends on whom the
caller's own id stands for in a box, and that is the user of its template (engines/container/ids.py).

Builds are made as root's, so that one layer serves whatever USER follows; a template is kept as its user's boxes see
it. A root caller, and one without such ids, have one form of each layer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Final

from paddock.runtime import apart, unpacking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paddock.images.layers import LayerId, Layers
    from paddock.images.leases import Lease
    from paddock.runtime.catalogue import Catalogue

    Owner = tuple[int, int]

ROOT: Final = (0, 0)


def fitted(
    layers: Layers,
    lease: Lease,
    catalogue: Catalogue,
    chain: Sequence[LayerId],
    was: Owner,
    wanted: Owner,
    proceed: Callable[[], None] = lambda: None,
) -> tuple[LayerId, ...]:
    """The chain as boxes of `wanted` see it. May take long: it is unpacked once more, and then remembered."""
    if was == wanted or not unpacking.is_mapped():
        return tuple(chain)
    made = []
    for layer in chain:
        proceed()
        made.append(_fitted(layers, lease, catalogue, layer, was, wanted))
    return tuple(made)


def _fitted(layers: Layers, lease: Lease, catalogue: Catalogue, layer: LayerId, was: Owner, wanted: Owner) -> LayerId:
    key = hashlib.sha256(f"form {layer} {was} {wanted}".encode()).hexdigest()
    known = catalogue.step(key)
    if known is not None and layers.keep(lease, known):
        return known
    with archive(lease) as place:
        apart.pack(layers.tree(layer), place, was)
        found = added(layers, lease, place, wanted)
    catalogue.keep_step(key, found)
    return found


@contextlib.contextmanager
def archive(lease: Lease) -> Iterator[str]:
    """A place for one, which is gone afterwards."""
    place = f"{lease.staging}/{os.urandom(8).hex()}.tar"
    try:
        yield place
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)


def added(layers: Layers, lease: Lease, place: str, owner: Owner = ROOT) -> LayerId:
    """A layer of an archive, which the lease keeps."""
    fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return unpacking.add(fd, layers.root, owner, lease)
    finally:
        os.close(fd)

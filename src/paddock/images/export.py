"""Write an image to a file that docker load, podman load, skopeo and `template load` all take.

It is an OCI layout, and beside it Docker's own list of contents, which names the same blobs. Nothing of this machine
is in it: no times of writing, no host names, no paths, and no owner but those of the layers. Each layer is packed
twice, first for its sum and size, which come before it in the file: that takes no space, and layers do not change.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import UserError
from paddock.images import marks, pack, tree
from paddock.images.documents import (
    CONFIG_TYPES,
    LAYER_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    ImageConfig,
    digest_of,
    dumped,
)
from paddock.images.layers import LayerId
from paddock.images.ownership import Ownership
from paddock.limits import ARCHIVE_BYTES, ARCHIVE_ENTRIES, IMAGE_BYTES
from paddock.text import neutralise, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.images.layers import Layers
    from paddock.images.pack import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    config: ImageConfig  # with the sums of what was written
    digest: str  # of the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One image that is to be written."""

    chain: tuple[LayerId, ...]  # lowest first
    config: ImageConfig
    tags: tuple[str, ...] = ()
    one_owner: bool = False  # whose the files are is left out
    unnamed: tuple[str, ...] = ()  # empty directories that are left out, with empty ones around them


def export(layers: Layers, pictures: Sequence[Picture], sink: Sink, *, for_docker: bool = True) -> list[Exported]:
    """Write images to one file; Docker's own list of contents is in it if that is wanted."""
    for picture in pictures:
        _require_room(layers, picture.chain)
    pack.write_directory(sink, "blobs")
    pack.write_directory(sink, "blobs/sha256")
    written: set[str] = set()
    found = [_write_picture(layers, picture, sink, written) for picture in pictures]
    pack.write_file(
        sink, "index.json", dumped({"schemaVersion": 2, "manifests": [e for one in found for e in one.listed]})
    )
    if for_docker:
        pack.write_file(sink, "manifest.json", dumped([one.saved for one in found]))
    pack.write_file(sink, "oci-layout", dumped({"imageLayoutVersion": "1.0.0"}))
    pack.write_end(sink)
    return [one.done for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    done: Exported
    listed: list[dict[str, object]]  # in the index
    saved: dict[str, object]  # in Docker's list


def _write_picture(layers: Layers, picture: Picture, sink: Sink, written: set[str]) -> _Written:
    blobs = [_packed(layers, layer, picture) for layer in picture.chain]
    for layer, blob in zip(picture.chain, blobs, strict=True):
        if blob.digest not in written:  # a layer may be in a chain twice
            _write_layer(layers, layer, picture, blob, sink)
        written.add(blob.digest)
    config = replace(picture.config, diff_ids=tuple(blob.digest for blob in blobs))
    data = config.to_json()
    described = _described(CONFIG_TYPES[0], data)
    manifest = dumped(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[0],
            "config": described.to_json(),
            "layers": [blob.to_json() for blob in blobs],
        }
    )
    listed = _described(MANIFEST_TYPES[0], manifest)
    for name, text in ((_name(described.digest), data), (_name(listed.digest), manifest)):
        if name not in written:
            pack.write_file(sink, name, text)
        written.add(name)
    entry = listed.to_json() | {"platform": {"architecture": config.architecture, "os": "linux"}}
    named = [entry | {"annotations": {"org.opencontainers.image.ref.name": tag}} for tag in picture.tags]
    names = [_name(blob.digest) for blob in blobs]
    return _Written(
        done=Exported(config=config, digest=listed.digest),
        listed=named or [entry],
        saved={"Config": _name(described.digest), "RepoTags": list(picture.tags), "Layers": names},
    )


def _require_room(layers: Layers, chain: Sequence[LayerId]) -> None:
    """An agent may have made a file of a terabyte that takes no space; in an archive it would."""
    total = 0
    for layer in dict.fromkeys(chain):
        with fs.opened_directory(layers.tree(layer)) as root:
            for number, entry in enumerate(tree.entries(root)):
                if stat.S_ISREG(entry.status.st_mode):
                    total += entry.status.st_size
                if number >= ARCHIVE_ENTRIES:
                    raise UserError(f"a layer has more than {ARCHIVE_ENTRIES} files", code="too-large")
                if entry.status.st_size > ARCHIVE_BYTES or total > IMAGE_BYTES:
                    where = neutralise(entry.path)
                    hint = f"at most {size(IMAGE_BYTES)} go into a file, holes included"
                    raise UserError(f"it is too large to be written out, at {where!r}", hint=hint, code="too-large")


def _packed(layers: Layers, layer: LayerId, picture: Picture) -> Descriptor:
    counting = _Counting(None)
    _pack(layers, layer, picture, counting)
    return counting.descriptor()


def _write_layer(layers: Layers, layer: LayerId, picture: Picture, blob: Descriptor, sink: Sink) -> None:
    counting = _Counting(sink)
    pack.write_sized(sink, _name(blob.digest), blob.size, lambda: _pack(layers, layer, picture, counting))
    if counting.descriptor() != blob:
        raise UserError(f"the layer {layer} changed while it was read", code="changed")


def _pack(layers: Layers, layer: LayerId, picture: Picture, sink: Sink) -> None:
    ownership = Ownership(ids=0 if picture.one_owner else layers.record(layer).ids)
    with fs.opened_directory(layers.tree(layer)) as root:
        pack.pack(root, sink, ownership, _empty(root, picture.unnamed))


def _empty(root: int, paths: Sequence[str]) -> frozenset[str]:
    """Of these directories those that are there with nothing in them, and those around them with nothing else."""
    found: set[str] = set()
    for whole in paths:
        path = whole.strip("/")
        while path and _holds(root, path) <= {name.removeprefix(f"{path}/") for name in found}:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)


def _holds(root: int, path: str) -> set[str]:
    """What is in a directory; of what is none, or hides what is below, something."""
    try:
        fd = fs.open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return {"."}
    try:
        return {"."} if marks.is_opaque(fd) else set(os.listdir(fd))
    finally:
        os.close(fd)


class _Counting:
    """Passes on what is written, if to anybody, and keeps its sum."""

    def __init__(self, sink: Sink | None) -> None:
        self._sink = sink
        self._sum = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes, /) -> None:
        self._sum.update(data)
        self._size += len(data)
        if self._sink is not None:
            self._sink.write(data)

    def descriptor(self) -> Descriptor:
        return Descriptor(media_type=LAYER_TYPES[0], digest=f"sha256:{self._sum.hexdigest()}", size=self._size)


def _described(media_type: str, data: bytes) -> Descriptor:
    return Descriptor(media_type=media_type, digest=digest_of(data), size=len(data))


def _name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"

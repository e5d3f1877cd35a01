"""Write an image to a file that docker load, podman load, skopeo and `template load` all take.

It is an OCI layout, and beside it Docker's own list of contents, which names the same blobs. Nothing of this machine
is in it: no times of writing, no host names, no paths, and no owner but those of the layers.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.images import pack
from paddock.images.documents import CONFIG_TYPES, LAYER_TYPES, MANIFEST_TYPES, Descriptor, ImageConfig, dumped
from paddock.images.ownership import Ownership
from paddock.images.streams import Hashed, Part, write_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.images.layers import LayerId, Layers
    from paddock.images.pack import Sink

_TAG: Final = re.compile(
    r"(?:[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::\d+)?/)*[a-z0-9]+(?:[._-]+[a-z0-9]+)*:[\w][\w.-]{0,127}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Blob:
    fd: int
    digest: str
    size: int


def export(
    layers: Layers, chain: Sequence[LayerId], config: ImageConfig, tag: str, sink: Sink, spool_dir: str
) -> ImageConfig:
    """Write an image of these layers, lowest first; returns its configuration, with the sums of what was written."""
    if not _TAG.fullmatch(tag):
        raise UserError(f"{tag[:80]!r} is no name for an image", hint="name:tag, in small letters", code="tag")
    with contextlib.ExitStack() as stack:
        blobs = [stack.enter_context(_packed(layers, layer, spool_dir)) for layer in chain]
        config = replace(config, diff_ids=tuple(blob.digest for blob in blobs))
        _write(sink, config, blobs, tag)
    return config


def _write(sink: Sink, config: ImageConfig, blobs: list[_Blob], tag: str) -> None:
    data = config.to_json()
    described = _described(CONFIG_TYPES[0], data)
    of_layers = [Descriptor(media_type=LAYER_TYPES[0], digest=blob.digest, size=blob.size) for blob in blobs]
    manifest = dumped(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[0],
            "config": described.to_json(),
            "layers": [layer.to_json() for layer in of_layers],
        }
    )
    entry = _described(MANIFEST_TYPES[0], manifest).to_json() | {
        "annotations": {"org.opencontainers.image.ref.name": tag},
        "platform": {"architecture": config.architecture, "os": "linux"},
    }
    saved = {"Config": _name(described.digest), "RepoTags": [tag], "Layers": [_name(blob.digest) for blob in blobs]}
    pack.write_directory(sink, "blobs")
    pack.write_directory(sink, "blobs/sha256")
    written = set()
    for blob in blobs:
        if blob.digest not in written:  # a layer may be in a chain twice
            pack.write_open_file(sink, _name(blob.digest), blob.fd)
        written.add(blob.digest)
    pack.write_file(sink, _name(described.digest), data)
    pack.write_file(sink, _name(_described("", manifest).digest), manifest)
    pack.write_file(sink, "index.json", dumped({"schemaVersion": 2, "manifests": [entry]}))
    pack.write_file(sink, "manifest.json", dumped([saved]))
    pack.write_file(sink, "oci-layout", dumped({"imageLayoutVersion": "1.0.0"}))
    pack.write_end(sink)


@contextlib.contextmanager
def _packed(layers: Layers, layer: LayerId, spool_dir: str) -> Iterator[_Blob]:
    """A layer as an archive in a nameless file: its sum and size must be known before it is written on."""
    ownership = Ownership(ids=layers.record(layer).ids)
    root = os.open(layers.tree(layer), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = os.open(spool_dir, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            pack.pack(root, _File(fd), ownership)
            hashed = Hashed(Part(fd))
            hashed.drain()
            yield _Blob(fd, hashed.digest, hashed.size)
        finally:
            os.close(fd)
    finally:
        os.close(root)


class _File:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes, /) -> None:
        write_all(self._fd, data)


def _described(media_type: str, data: bytes) -> Descriptor:
    import hashlib

    return Descriptor(media_type=media_type, digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))


def _name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"

"""Files of images, sound and otherwise, put together by hand."""

from __future__ import annotations

import hashlib
import json
import os

from paddock.images.oci import own_architecture
from tests.images import tars

LOWER = tars.archive(tars.directory(b"etc/"), tars.file(b"etc/name", b"lower"), tars.file(b"etc/gone", b"x"))
UPPER = tars.archive(tars.file(b"etc/name", b"upper"), tars.file(b"etc/.wh.gone"))


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(*layers: bytes, **more: object) -> dict[str, object]:
    return {
        "architecture": own_architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"], "User": "agent", "WorkingDir": "/home", "Volumes": None},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        **more,
    }


def tar(files: dict[str, bytes]) -> bytes:
    return tars.archive(*(tars.file(os.fsencode(name), data) for name, data in files.items()))


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def saved(*layers: bytes, tag: str = "team:v1", settings: dict[str, object] | None = None) -> dict[str, bytes]:
    """As docker save before version 25 writes it."""
    data = dumped(settings or config(*layers))
    name = f"{digest(data)[7:]}.json"
    paths = [f"{number:064x}/layer.tar" for number in range(len(layers))]
    listed = [{"Config": name, "RepoTags": [tag], "Layers": paths}]
    return {name: data, **dict(zip(paths, layers, strict=True)), "manifest.json": dumped(listed)}


def described(data: bytes, media_type: str, **more: object) -> dict[str, object]:
    return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": digest(data), "size": len(data), **more}


def laid_out(
    *layers: bytes,
    blobs: list[bytes] | None = None,
    layer_type: str = "layer.v1.tar+gzip",
    settings: dict[str, object] | None = None,
    entry: dict[str, object] | None = None,
) -> dict[str, bytes]:
    """An OCI layout; `blobs` are the layers as they lie there, compressed or not."""
    blobs = list(layers) if blobs is None else blobs
    settled = dumped(settings or config(*layers))
    manifest = dumped(
        {
            "schemaVersion": 2,
            "config": described(settled, "config.v1+json"),
            "layers": [described(blob, layer_type) for blob in blobs],
        }
    )
    note = {"annotations": {"org.opencontainers.image.ref.name": "team:v1"}}
    listed = described(manifest, "manifest.v1+json", **note) | (entry or {})
    return {
        "oci-layout": dumped({"imageLayoutVersion": "1.0.0"}),
        "index.json": dumped({"schemaVersion": 2, "manifests": [listed]}),
        **{f"blobs/sha256/{digest(data)[7:]}": data for data in (settled, manifest, *blobs)},
    }

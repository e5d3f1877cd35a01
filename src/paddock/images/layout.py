"""An image that lies in a directory, as an OCI layout or as skopeo's `dir:` has it, as the file that ImageFile reads.

The directory may be in a workspace, and change meanwhile: no link is followed, nothing but regular files is read, and
what counts in the end are the sums of what was read.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.images import pack
from paddock.images.documents import MANIFEST_TYPES, document, dumped
from paddock.images.tar import refused
from paddock.limits import IMAGE_BYTES, IMAGE_DOCUMENT_BYTES, IMAGE_FILE_ENTRIES

if TYPE_CHECKING:
    from paddock.images.pack import Sink

_LISTS: Final = ("oci-layout", "index.json")
_BLOBS: Final = "blobs/sha256"
_SUM: Final = re.compile(r"[0-9a-f]{64}")


def is_one(root: int) -> bool:
    """Whether the directory at a descriptor says that it is a layout."""
    try:
        return stat.S_ISREG(os.stat(_LISTS[0], dir_fd=root, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def write(root: int, sink: Sink) -> None:
    """All blobs of the layout at a descriptor, and its lists; what else is there is nobody's business."""
    for name in _LISTS:
        try:
            pack.write_file(sink, name, fs.read_beneath(root, name, IMAGE_DOCUMENT_BYTES))
        except OSError as error:
            raise refused(f"the directory is no OCI layout: {error.strerror}", name) from error
    _write_blobs(root, _BLOBS, sink)
    pack.write_end(sink)


def write_pulled(root: int, manifest: bytes, sink: Sink) -> None:
    """The blobs of an image beside its manifest, which was looked at."""
    kind = document(manifest, "the manifest").text("mediaType") or MANIFEST_TYPES[0]
    digest = hashlib.sha256(manifest).hexdigest()
    entry = {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(manifest)}
    pack.write_file(sink, "oci-layout", dumped({"imageLayoutVersion": "1.0.0"}))
    pack.write_file(sink, "index.json", dumped({"schemaVersion": 2, "manifests": [entry]}))
    pack.write_file(sink, f"{_BLOBS}/{digest}", manifest)
    _write_blobs(root, ".", sink)
    pack.write_end(sink)


def _write_blobs(root: int, directory: str, sink: Sink) -> None:
    left = IMAGE_BYTES
    for name in _blobs(root, directory):
        left -= _write_blob(root, f"{directory}/{name}", f"{_BLOBS}/{name}", sink, left)


def _blobs(root: int, directory: str) -> list[str]:
    try:
        fd = fs.open_beneath(root, directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise refused(f"the directory is no OCI layout: {error.strerror}", directory) from error
    try:
        names = sorted(filter(_SUM.fullmatch, os.listdir(fd)))
    finally:
        os.close(fd)
    if len(names) > IMAGE_FILE_ENTRIES - len(_LISTS):
        raise refused("it has too many files")
    return names


def _write_blob(root: int, place: str, name: str, sink: Sink, left: int) -> int:
    try:
        fd = fs.open_beneath(root, place, os.O_RDONLY)
    except OSError as error:
        raise refused(f"it cannot be read: {error.strerror}", name) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise refused("it is no file", name)
        if status.st_size > left:
            raise refused("it is too large", name)
        pack.write_open_file(sink, name, fd)
        return status.st_size
    finally:
        os.close(fd)

"""Read images from files: what `docker save`, `podman save` and skopeo write, and tars of OCI layouts.

The file is indexed first, then each layer is read once, where it lies: its sums are those of the bytes that were
unpacked. Two lists of contents may be in one file; Docker's `manifest.json` counts if it is there, as for docker load.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.images.documents import (
    CONFIG_TYPES,
    DIGEST,
    INDEX_TYPES,
    LAYER_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    Document,
    ImageConfig,
    digest_of,
    document,
    parsed,
)
from paddock.images.layers import layer_of
from paddock.images.names import place_of
from paddock.images.streams import MAGIC_BYTES, Hashed, Part, Pipe, is_packed, plain, room, spool
from paddock.images.tar import Kind, Reader, refused
from paddock.limits import (
    IMAGE_BYTES,
    IMAGE_DOCUMENT_BYTES,
    IMAGE_DOCUMENTS_MAX,
    IMAGE_FILE_ENTRIES,
    IMAGE_INDEXES_MAX,
    IMAGE_LAYERS_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from paddock.images.layers import LayerId, Layers
    from paddock.images.leases import Lease
    from paddock.images.ownership import Ownership

_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of a file, not yet unpacked."""

    tags: tuple[str, ...]
    config: ImageConfig
    layers: tuple[str, ...]  # names in the file, lowest first
    digest: str  # of its manifest, or where a file has none, of its configuration


@dataclass(frozen=True, slots=True)
class _Where:
    start: int
    size: int


def own_architecture() -> str:
    """This machine as images name it."""
    machine = os.uname().machine
    return _MACHINES.get(machine, machine)


class ImageFile:
    """A file of images, open; use it as a context."""

    def __init__(self, fd: int, spool_dir: str) -> None:
        """`fd` is the caller's; a stream or compressed file is copied to a nameless file in `spool_dir` first."""
        self._spool_dir = spool_dir
        self._own = -1
        self._fd = fd
        self._documents_left = IMAGE_DOCUMENTS_MAX
        try:
            self._unfold()
            self._files, self._links = self._indexed()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<ImageFile {len(self._files)} files>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._own >= 0:
            os.close(self._own)
        self._own = -1

    def images(self) -> tuple[Image, ...]:
        """Every image of the file that runs on this machine."""
        if "manifest.json" in self._files:
            return tuple(self._saved())
        if "index.json" in self._files:
            return tuple(self._laid_out())
        raise refused("it is no image: there is neither manifest.json nor index.json")

    def load(self, image: Image, layers: Layers, lease: Lease, ownership: Ownership) -> tuple[LayerId, ...]:
        """Put an image's layers into the store, under a lease; those that are there already are not read again."""
        found = []
        for name, diff_id in zip(image.layers, image.config.diff_ids, strict=True):
            layer = layer_of(diff_id, ownership)
            if not layers.keep(lease, layer):
                with self._checked(name) as blob, plain(blob, self._spool_dir) as source:
                    layers.add(lease, source, ownership, expected=diff_id)
            found.append(layer)
        return tuple(found)

    # -- the file ------------------------------------------------------------------------------------------------------

    def _unfold(self) -> None:
        is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        source = Part(self._fd) if is_file else Pipe(self._fd)
        with plain(source, self._spool_dir) as unpacked:
            if is_file and not is_packed(os.pread(self._fd, MAGIC_BYTES, 0)):
                return
            self._own = self._fd = spool(unpacked, self._spool_dir, room(self._spool_dir))

    def _indexed(self) -> tuple[dict[str, _Where], dict[str, str]]:
        files: dict[str, _Where] = {}
        links: dict[str, str] = {}
        reader = Reader(Part(self._fd), entries_max=IMAGE_FILE_ENTRIES, bytes_max=IMAGE_BYTES)
        for member in reader:
            path = place_of(member).path
            if member.kind is Kind.DIRECTORY:
                continue
            if path in files or path in links:
                raise refused("a second entry of this name", member.name)
            if member.kind is Kind.FILE:
                files[path] = _Where(reader.position, member.size)
            elif member.kind is Kind.SYMLINK:  # docker save writes a layer once, and links to it
                links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.target))
            else:
                raise refused(f"a {member.kind.value} in a file of images", member.name)
        return files, links

    def _where(self, name: str) -> _Where:
        found = self._files.get(self._links.get(name, name))
        if found is None:
            raise refused("it lacks a file that it speaks of", name)
        return found

    def _document(self, name: str) -> bytes:
        where = self._where(name)
        self._documents_left -= 1
        if self._documents_left < 0:
            raise refused("it speaks of too many images")
        if where.size > IMAGE_DOCUMENT_BYTES:
            raise refused("it is too long", name)
        with self._checked(name) as source:
            return b"".join(iter(lambda: source.read(1 << 16), b""))

    @contextlib.contextmanager
    def _checked(self, name: str) -> Iterator[Hashed]:
        """The bytes of a file; at the end its sum is compared with its name, where that is a sum."""
        where = self._where(name)
        hashed = Hashed(Part(self._fd, where.start, where.size))
        yield hashed
        hashed.drain()
        if hashed.size != where.size:
            raise refused("it ends too early")
        wanted = "sha256:" + posixpath.basename(name).removesuffix(".json")
        if DIGEST.fullmatch(wanted) and hashed.digest != wanted:
            raise refused(f"its sum is {hashed.digest}", name)

    # -- docker save ---------------------------------------------------------------------------------------------------

    def _saved(self) -> Iterator[Image]:
        listed = parsed(self._document("manifest.json"), "manifest.json")
        if not isinstance(listed, list):
            raise refused("manifest.json is no list")
        for item in listed:
            entry = Document(item, "manifest.json")
            config = self._document(entry.text("Config"))
            digest = digest_of(config)
            yield self._image(entry.texts("RepoTags"), ImageConfig.read(config), entry.texts("Layers"), digest)

    # -- OCI layout ----------------------------------------------------------------------------------------------------

    def _laid_out(self) -> Iterator[Image]:
        if document(self._document("oci-layout"), "oci-layout").text("imageLayoutVersion") != "1.0.0":
            raise refused("its layout is of another version than 1.0.0")
        for manifest in self._manifests(document(self._document("index.json"), "index.json"), IMAGE_INDEXES_MAX):
            whole = document(self._blob(manifest), "a manifest")
            config = ImageConfig.read(self._blob(Descriptor.read(whole.within("config"), CONFIG_TYPES)))
            blobs = [Descriptor.read(item, LAYER_TYPES) for item in whole.each("layers")]
            for blob in blobs:
                self._require_size(blob)
            tags = (manifest.tag,) if manifest.tag else ()
            yield self._image(tags, config, tuple(map(_name, blobs)), manifest.digest)

    def _manifests(self, index: Document, left: int) -> Iterator[Descriptor]:
        """The manifests of an index for this machine; one that says no machine counts for all."""
        if not left:
            raise refused("lists of images in lists of images")
        found = [Descriptor.read(item, INDEX_TYPES + MANIFEST_TYPES) for item in index.each("manifests")]
        if len(found) > IMAGE_LAYERS_MAX:
            raise refused("it has too many images")
        for item in found:
            if item.media_type in INDEX_TYPES:
                yield from self._manifests(document(self._blob(item), "an index"), left - 1)
            elif (item.os or "linux", item.architecture or own_architecture()) == ("linux", own_architecture()):
                yield item

    def _blob(self, blob: Descriptor) -> bytes:
        self._require_size(blob)
        return self._document(_name(blob))

    def _require_size(self, blob: Descriptor) -> None:
        if self._where(_name(blob)).size != blob.size:
            raise refused("its size is not the one in its manifest", blob.digest)

    def _image(self, tags: tuple[str, ...], config: ImageConfig, layers: tuple[str, ...], digest: str) -> Image:
        if len(layers) != len(config.diff_ids):
            raise refused("its configuration speaks of other layers than its manifest")
        if config.architecture not in {"", own_architecture()}:
            raise UserError(
                f"the image is for {config.architecture[:40]!r}, and this machine is {own_architecture()}",
                hint="pull or save it for this machine: --platform",
                code="architecture",
            )
        for name in layers:
            self._where(name)
        return Image(tags=tags, config=config, layers=layers, digest=digest)


def _name(blob: Descriptor) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"

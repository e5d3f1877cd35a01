"""Templates from files: what `docker save`, `podman save` and skopeo write, and OCI layouts.

A load is all or nothing. Its layers are under a lease from the moment they are unpacked until the rows of the store
name them, so a process that dies meanwhile leaves layers that nobody names, for the next prune.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import UserError
from paddock.images import layout
from paddock.images.layers import Layers
from paddock.images.streams import room, spool, write_all
from paddock.limits import TEMPLATES_MAX
from paddock.model.reference import Reference
from paddock.runtime import builtins, distributions, leasing, leaving, quotas, templates
from paddock.store import TemplateRow
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.images.leases import Lease
    from paddock.images.pack import Sink
    from paddock.model import ImageRun
    from paddock.runtime.core import Runtime
    from paddock.runtime.unpacking import Unpacked

_TAGS_MAX: Final = 100


async def load(runtime: Runtime, path: str, name: str = "") -> list[TemplateRow]:
    """The image of a file or layout as a template: of this name, replacing what has it; or of its own names, if free.

    May take long.
    """
    wanted = Reference.parse(name) if name else None
    if len(await runtime.catalogue.listed()) >= TEMPLATES_MAX:
        raise UserError(f"there are {TEMPLATES_MAX} templates", hint="`paddock template rm` some", code="too-many")
    layers = Layers(runtime.paths.layers)
    async with quotas.counting(runtime), leasing.held(layers) as lease:
        found, image = await leaving.attended(_unpack, path, layers, lease)
        references = [wanted] if wanted else _own_names(found)
        rows = [row_of(reference, found, image, "file") for reference in references]
        return await runtime.catalogue.add_all(rows, replacing=wanted is not None)


def _unpack(path: str, layers: Layers, lease: Lease) -> tuple[Unpacked, ImageRun]:
    with opened(path, layers.root) as fd:
        return templates.unpacked(fd, layers, lease)


def pulled(directory: str, manifest: bytes, layers: Layers, lease: Lease) -> tuple[Unpacked, ImageRun]:
    """An image as skopeo's `dir:` has it. May take long."""
    root = os.open(directory, fs.LISTABLE)
    try:
        fd = _spooled(layers.root, lambda sink: layout.write_pulled(root, manifest, sink))
    finally:
        os.close(root)
    try:
        return templates.unpacked(fd, layers, lease)
    finally:
        os.close(fd)


@contextlib.contextmanager
def opened(path: str, spool_dir: str) -> Iterator[int]:
    """A regular file with what is at a path: the file itself, or a nameless copy of a stream or a layout."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        hint = "give a file that `docker save` or skopeo wrote, or an OCI layout"
        raise UserError(f"no image at {path}: {error.strerror}", hint=hint, code="no-template") from error
    with contextlib.ExitStack() as held:
        held.callback(os.close, fd)
        os.set_blocking(fd, True)  # a pipe may be slow
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            fd = of_layout(fd, spool_dir)
            held.callback(os.close, fd)
        elif not stat.S_ISREG(mode):
            fd = spool(_Stream(fd), spool_dir, room(spool_dir))
            held.callback(os.close, fd)
        yield fd


def of_layout(root: int, spool_dir: str) -> int:
    """A nameless file with the images of the layout in an open directory."""
    return _spooled(spool_dir, lambda sink: layout.write(root, sink))


def _spooled(spool_dir: str, write: Callable[[Sink], None]) -> int:
    """A nameless file with what is written."""
    fd = os.open(spool_dir, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        write(_Bounded(fd, room(spool_dir)))
    except BaseException:
        os.close(fd)
        raise
    return fd


class _Stream:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, size: int, /) -> bytes:
        leaving.readable(self._fd)
        return os.read(self._fd, size)


class _Bounded:
    def __init__(self, fd: int, room: int) -> None:
        self._fd = fd
        self._room = room

    def write(self, data: bytes, /) -> None:
        self._room -= len(data)
        if self._room < 0:
            raise UserError("the image would take too much space", hint="free some", code="too-large")
        leaving.proceed()
        write_all(self._fd, data)


def _own_names(found: Unpacked) -> list[Reference]:
    """Those that the file gives it: somebody else's words."""
    tags = [tag for tag in found.tags if ":" in tag]  # an OCI layout may name an image by a tag alone
    if not tags or len(tags) > _TAGS_MAX:
        raise _unnamed(f"the image has {len(tags) or 'no'} name{'s' if tags else ''} in its file")
    try:
        references = [*dict.fromkeys(map(Reference.parse, tags))]
    except UserError as error:
        raise _unnamed(f"the image has another kind of name: {neutralise(error.message, 200)}") from error
    for reference in references:
        builtins.refuse(reference)
        if distributions.parse(reference):  # which our own templates begin with
            hint = f"if it shall be that: -t {reference}"
            raise UserError(f"the name {reference} is that of a distribution", hint=hint, code="reserved")
    return references


def _unnamed(message: str) -> UserError:
    return UserError(message, hint="give it one: -t NAME:TAG", code="no-name")


def row_of(reference: Reference, found: Unpacked, image: ImageRun, source: str) -> TemplateRow:
    return TemplateRow(
        name=reference.name,
        tag=reference.tag,
        chain=found.layers,
        config=found.config.to_json().decode(),
        image=image,
        source=source,
        digest=found.digest,
    )

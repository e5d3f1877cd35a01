"""What FROM names: a template, an image or a tree in the build directory, a template that comes with Paddock, a
distribution that is made of its packages, an image of a registry. In this order, and each only as what it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from paddock.errors import UserError
from paddock.images import layout
from paddock.images.build import Built
from paddock.images.dockerlines import wrong
from paddock.images.documents import ImageConfig
from paddock.images.layers import LayerId
from paddock.images.oci import own_architecture
from paddock.model.build import LockedBase
from paddock.model.reference import Reference, is_path
from paddock.model.remote import Remote
from paddock.runtime import distributions, forms, loading, pulling, unpacking
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import TypeVar

    from paddock.images.layers import Layers
    from paddock.images.leases import Lease
    from paddock.images.sources import Directory
    from paddock.model.build import LockInfo
    from paddock.runtime.core import Runtime
    from paddock.runtime.errands import Errand
    from paddock.runtime.steplayers import StepLayers
    from paddock.store import TemplateRow

    T = TypeVar("T")


class Waiting(Protocol):
    """The build that asks."""

    def wait(self, coroutine: Coroutine[None, None, T]) -> T: ...

    def note(self, text: str) -> None: ...

    def proceed(self) -> None: ...

    def may_reach(self, pattern: str) -> bool:
        """Whether its options, or its user's own rules, allow a host and port."""

    def errand(self) -> Errand:
        """By which an image is fetched for it."""

    def built_in(self, name: str) -> TemplateRow | None:
        """A template that comes with Paddock, if it had to be built; None for any other name."""


class Bases:
    def __init__(
        self, runtime: Runtime, layers: Layers, lease: Lease, made: StepLayers, files: Directory, asking: Waiting
    ) -> None:
        self._runtime = runtime
        self._layers = layers
        self._lease = lease
        self._made = made
        self._files = files
        self._asking = asking
        self._found: dict[str, tuple[Built, str]] = {}

    def __repr__(self) -> str:
        return f"<Bases {', '.join(self._found)}>"

    def locked(self) -> tuple[LockedBase, ...]:
        return tuple(LockedBase(name=name, digest=digest) for name, (_, digest) in self._found.items())

    def find(self, name: str, line: int, lock: LockInfo | None) -> Built:
        """Root's form of it (forms.py). UserError with its line, also if a lock has another."""
        if name not in self._found:
            try:
                self._found[name] = self._find(name)
            except UserError as error:
                raise wrong(line, error.message, error.hint) from error
        built, digest = self._found[name]
        if lock is not None and LockedBase(name=name, digest=digest) not in lock.bases:
            known = next((base.digest for base in lock.bases if base.name == name), "nothing")
            hint = "build without --locked if that is meant, and write the lock file anew with --lock"
            raise wrong(line, f"FROM {neutralise(name)} is {digest}, and the lock file has {known}", hint)
        return built

    def _find(self, name: str) -> tuple[Built, str]:
        if is_path(name):
            return self._of_file(name)
        if "@" in name:
            return self._pulled(name)
        reference = Reference.parse(name)
        catalogue = self._runtime.catalogue
        if row := self._asking.built_in(str(reference)):
            return self._of_row(row)
        if self._asking.wait(catalogue.has(reference)):
            return self._of_row(self._asking.wait(catalogue.find(reference)))
        if wanted := distributions.parse(reference):
            return self._of_distribution(wanted)
        return self._pulled(name)

    def _pulled(self, name: str) -> tuple[Built, str]:
        """Of a registry, if the build may reach it: that a Dockerfile names one allows nothing."""
        remote = Remote.parse(name)
        if row := self._known(remote):
            return self._of_row(row)
        if not self._asking.may_reach(remote.pattern):
            hint = f"`paddock template pull {remote}` first, or let the build do it: --allow-host {remote.pattern}"
            raise UserError(f"there is no template {name}", hint=hint, code="no-template")
        self._asking.note(f"pulling {remote}")
        return self._of_row(self._asking.wait(pulling.pull(self._runtime, remote, self._asking.errand())))

    def _known(self, remote: Remote) -> TemplateRow | None:
        """What was pulled by this sum, or by the tag beside it while that was the same."""
        catalogue = self._runtime.catalogue
        for name in (remote.local, replace(remote, digest="").local) if remote.digest else ():
            if self._asking.wait(catalogue.has(name)):
                row = self._asking.wait(catalogue.find(name))
                if row.digest == remote.digest:
                    return row
        return None

    def _of_row(self, row: TemplateRow) -> tuple[Built, str]:
        self._layers.require(self._lease, row.chain)
        was = (row.image.uid, row.image.gid)
        chain = [LayerId(layer) for layer in row.chain]
        own = forms.fitted(
            self._layers, self._lease, self._runtime.catalogue, chain, was, forms.ROOT, self._asking.proceed
        )
        built = _built(own, ImageConfig.read(row.config.encode()))
        return built, row.digest or built.digest

    def _of_file(self, name: str) -> tuple[Built, str]:
        """Of the build directory alone: what a Dockerfile names is not always its user's word."""
        path = os.path.normpath(name)
        if path.startswith(("/", "..", "~")):
            hint = "`paddock template load FILE` first, and name the template; or put it into the build directory"
            raise UserError(f"{neutralise(name)!r} is not in the build directory", hint=hint, code="dockerfile")
        path = "" if path == "." else path
        status = self._files.status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            fd = self._files.open_directory(path)
            try:
                built = self._of_directory(fd)
            finally:
                os.close(fd)
        elif status is not None and stat.S_ISREG(status.st_mode):
            fd = self._files.open(path)
            try:
                built = self._of_image(fd)
            finally:
                os.close(fd)
        else:
            raise UserError(f"{neutralise(name)!r} is no image and no directory", hint="links are not followed")
        return built, built.digest

    def _of_directory(self, fd: int) -> Built:
        if not layout.is_one(fd):
            return _built([self._made.of_tree(fd)], _plain_config())
        image = loading.of_layout(fd, self._layers.root)
        try:
            return self._of_image(image)
        finally:
            os.close(image)

    def _of_image(self, fd: int) -> Built:
        found = unpacking.unpack(fd, self._layers.root, lease=self._lease)
        return _built(found.layers, found.config)

    def _of_distribution(self, wanted: distributions.Wanted) -> tuple[Built, str]:
        key = hashlib.sha256(wanted.key().encode()).hexdigest()
        layer = self._runtime.catalogue.step(key)
        if layer is None or not self._layers.keep(self._lease, layer):
            self._asking.note(f"making {wanted} of packages, which takes some minutes the first time")
            place = f"{self._lease.staging}/{key}.tar"
            distributions.make(wanted, place, self._asking.proceed)
            layer = forms.added(self._layers, self._lease, place)
            self._runtime.catalogue.keep_step(key, layer)
        built = _built([layer], _plain_config())
        return built, built.digest


def _built(chain: Sequence[LayerId], config: ImageConfig) -> Built:
    """By what is in it: a template of the same name may be another one tomorrow."""
    key = hashlib.sha256(json.dumps(list(chain)).encode()).hexdigest()
    return Built(chain=tuple(chain), config=config, key=key)


def _plain_config() -> ImageConfig:
    return ImageConfig(architecture=own_architecture(), diff_ids=())

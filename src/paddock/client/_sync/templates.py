"""What the roots of container boxes are made of. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

from paddock import codec
from paddock.client._sync.builds import Builds
from paddock.client.answers import expect_list
from paddock.client.outgoing import absolute, outgoing
from paddock.model import Network
from paddock.reports import TemplateInfo


class Templates(Builds):
    """Names are NAME or NAME:TAG."""

    def __repr__(self) -> str:
        return f"<Templates of {self._daemon!r}>"

    def ls(self) -> list[TemplateInfo]:
        return _infos(self._daemon.call("template_ls"))

    def inspect(self, name: str) -> TemplateInfo:
        """With what it takes of the disk."""
        return codec.from_wire(TemplateInfo, self._daemon.call("template_inspect", template=name))

    def load(self, path: str, name: str = "") -> list[TemplateInfo]:
        """Of a file by `docker save`, an OCI archive or layout; without a name it has its own, if they are free."""
        return _infos(self._daemon.call("template_load", path=absolute(path), name=name))

    def save(self, name: str, path: str, directory: int | None = None) -> str:
        """Into a file that docker load, podman load and `load` take; returns the sum of its manifest."""
        with outgoing(path, directory) as file:
            return str(self._daemon.call("template_save", template=name, path=file))

    def pull(
        self, image: str, name: str = "", *, network: Network | None = None, secret: str = "", user: str = ""
    ) -> TemplateInfo:
        """Of an image in a registry: HOST/NAME:TAG or NAME@sha256:...; by skopeo, in a box that reaches that host.

        `secret` names a secret that is the password of `user`; the box has a placeholder of it.
        """
        words = self._errand(image, network, secret, user)
        return codec.from_wire(TemplateInfo, self._daemon.call("template_pull", name=name, **words))

    def push(
        self, name: str, image: str, *, network: Network | None = None, secret: str = "", user: str = ""
    ) -> str:
        """Into a registry, in the same way; returns the sum of its manifest there."""
        words = self._errand(image, network, secret, user)
        return str(self._daemon.call("template_push", template=name, **words))

    def _errand(self, image: str, network: Network | None, secret: str, user: str) -> dict[str, object]:
        lent = self._daemon.lent([secret] if secret else [])
        use = lent.uses[0] if lent.uses else None
        return {"image": image, "network": network or Network(), "secret": use, "user": user, "given": lent.given}

    def remove(self, name: str) -> None:
        """Boxes that were made of it stay as they are."""
        self._daemon.call("template_rm", template=name)


def _infos(rows: object) -> list[TemplateInfo]:
    return [codec.from_wire(TemplateInfo, row) for row in expect_list(rows)]

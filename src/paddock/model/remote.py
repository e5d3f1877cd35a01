"""An image in a registry: [HOST[:PORT]/]NAME[:TAG][@sha256:SUM]."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from paddock.errors import UserError
from paddock.model.reference import Reference

_SUM: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::\d{1,5})?", re.ASCII)
_SUM_TAG_CHARS: Final = len("sha256-") + 16
_USUAL: Final = "docker.io"  # of a name that says none, as everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    host: str  # with its port, where one is said
    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.host}/{self.name}{self.tag and f':{self.tag}'}{self.digest and f'@{self.digest}'}"

    @classmethod
    def parse(cls, word: str) -> Remote:
        """UserError for what is no image of a registry."""
        rest, at, digest = word.partition("@")
        host, slash, name = rest.partition("/")
        if not slash or not ("." in host or ":" in host or host == "localhost"):
            host, name = _USUAL, rest if slash else f"library/{rest}"
        if (at and not _SUM.fullmatch(digest)) or not _HOST.fullmatch(host):
            raise _wrong(word)
        try:
            local = Reference.parse(f"x/{name}")  # so that nothing of it is taken for a host
        except UserError as error:
            raise _wrong(word) from error
        tagged = ":" in name.rpartition("/")[2]
        tag = local.tag if tagged or not digest else ""
        return cls(host=host, name=local.name.removeprefix("x/"), tag=tag, digest=digest)

    @property
    def address(self) -> str:
        """For who takes no tag beside a sum, which says it all."""
        return f"{self.host}/{self.name}@{self.digest}" if self.digest else str(self)

    @property
    def local(self) -> Reference:
        """The name that a template of it has here: by a sum it is not what others mean by a tag, said or not."""
        tag = self.digest.replace(":", "-")[:_SUM_TAG_CHARS] if self.digest else self.tag or "latest"
        return Reference.parse(f"{self.host}/{self.name}:{tag}")

    @property
    def is_usual(self) -> bool:
        return self.host == _USUAL

    @property
    def is_here(self) -> bool:
        """On this machine, where no one asks for TLS."""
        name = self.host.partition(":")[0]
        try:
            return name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    @property
    def pattern(self) -> str:
        """The rule that lets a box reach it."""
        return self.host if ":" in self.host else f"{self.host}:443"


def _wrong(word: str) -> UserError:
    hint = "HOST/NAME:TAG, or NAME@sha256:..., in small letters"
    return UserError(f"{word[:80]!r} is no image of a registry", hint=hint, code="bad-image")

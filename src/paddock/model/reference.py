"""The name of a template: NAME or NAME:TAG, as Docker's and podman's images are named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.errors import UserError

_PART: Final = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_NAME: Final = re.compile(rf"{_PART}(?::\d{{1,5}}(?=/))?(?:/{_PART})*", re.ASCII)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_NAME_CHARS: Final = 255
# Programs write these before names that people do not: Docker's own registry, and podman's word for none.
_UNSAID: Final = ("docker.io/library/", "docker.io/", "localhost/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    name: str
    tag: str = "latest"

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"

    @classmethod
    def parse(cls, word: str) -> Reference:
        """UserError for what is no name of a template."""
        name, colon, tag = word.rpartition(":")
        if not colon or "/" in tag:  # a port has a path behind it
            name, tag = word, "latest"
        name = _plain(name)
        if len(name) > _NAME_CHARS or not _NAME.fullmatch(name) or not _TAG.fullmatch(tag):
            hint = "NAME or NAME:TAG, in small letters; a file or directory begins with / or ./"
            raise UserError(f"{word[:80]!r} is no name of a template", hint=hint, code="bad-template")
        return cls(name=name, tag=tag)


def is_path(word: str) -> bool:
    """Whether a word means a place: never what happens to lie where the caller is, which a box may have put there."""
    return word in {".", ".."} or word.startswith(("/", "./", "../", "~"))


def _plain(name: str) -> str:
    for unsaid in _UNSAID:
        if name.startswith(unsaid) and len(name) > len(unsaid):
            return name.removeprefix(unsaid)
    return name

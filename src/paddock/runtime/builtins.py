"""The templates that come with Paddock, as Dockerfiles beside its code. They are built when they are first used, and
again when their file is another one: what it was is part of what a template says of its source.
"""

from __future__ import annotations

import functools
import hashlib
import os
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.model import Network

if TYPE_CHECKING:
    from paddock.model.reference import Reference
    from paddock.store import TemplateRow

_DIRECTORY: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "templates")
_SUFFIX: Final = ".Dockerfile"
_SOURCE: Final = "built-in "
NETWORK: Final = Network(presets=("debian", "ubuntu"))  # where their packages come from


@functools.cache
def names() -> tuple[str, ...]:
    found = os.listdir(_DIRECTORY)
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def is_one(reference: Reference) -> bool:
    return reference.tag == "latest" and reference.name in names()


@functools.cache
def text(name: str) -> bytes:
    with open(f"{_DIRECTORY}/{name}{_SUFFIX}", "rb") as file:
        return file.read()


@functools.cache
def source(name: str) -> str:
    return f"{_SOURCE}{hashlib.sha256(text(name)).hexdigest()[:16]}"


def refuse(reference: Reference) -> None:
    """UserError for a name that comes with an image, and not from its user, if a template of ours has it.

    Also where that is not built yet: whoever had the name first would be what `FROM base` means from then on.
    """
    if is_one(reference):
        hint = "give it another name: -t NAME:TAG"
        raise UserError(f"the name {reference} is that of a template of paddock's own", hint=hint, code="reserved")


def is_ours(row: TemplateRow) -> bool:
    """Whether a template of such a name is one of ours, and not what its user made by that name."""
    return row.source.startswith(_SOURCE)


def is_current(row: TemplateRow) -> bool:
    return row.source == source(row.name)

"""Names of archive entries: what they may look like, and which of them are marks of a layer and no files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from paddock.images.tar import Kind, Member, refused
from paddock.limits import ARCHIVE_DEPTH_MAX, ARCHIVE_NAME_BYTES, ARCHIVE_PATH_BYTES

WHITEOUT: Final = ".wh."
OPAQUE: Final = ".wh..wh..opq"
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry belongs below the root of its layer: nothing in it is empty, `.` or `..`."""

    parts: tuple[str, ...]  # none for the root itself

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    @property
    def parent(self) -> str:
        return "/".join(self.parts[:-1])

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def is_opaque_mark(self) -> bool:
        return bool(self.parts) and self.parts[-1] == OPAQUE

    @property
    def hidden(self) -> str:
        """The name that a whiteout hides; empty for everything that is none."""
        if not self.parts or self.is_opaque_mark or not self.parts[-1].startswith(WHITEOUT):
            return ""
        return self.parts[-1].removeprefix(WHITEOUT)


def place_of(member: Member) -> Place:
    """Where a member of a layer goes, or UserError."""
    name = member.name
    if member.kind is not Kind.DIRECTORY and name.endswith("/"):
        raise refused(f"a {member.kind.value} whose name ends like a directory's", name)
    place = _parsed(name)
    if not place.parts and member.kind is not Kind.DIRECTORY:
        raise refused(f"a {member.kind.value} in the place of the root", name)
    _check_marks(place, member)
    return place


def place_of_target(member: Member) -> Place:
    """The earlier entry that a hard link names."""
    place = _parsed(member.target)
    if not place.parts or member.target.endswith("/"):
        raise refused("a hard link to no file", member.name)
    if any(part.startswith(WHITEOUT) for part in place.parts):
        raise refused("a hard link to a mark", member.name)
    return place


def _parsed(name: str) -> Place:
    if not name:
        raise refused("an entry without a name")
    if name.startswith("/") or _DRIVE.match(name):
        raise refused("an absolute name", name)
    raw = os.fsencode(name)
    if len(raw) > ARCHIVE_PATH_BYTES:
        raise refused("its name is too long", name)
    parts = name.removesuffix("/").split("/")
    if parts[0] == ".":
        del parts[0]
    if ".." in parts:
        raise refused("a name that leads out", name)
    if "" in parts or "." in parts:
        raise refused("a name written in an odd way", name)
    if len(parts) > ARCHIVE_DEPTH_MAX:
        raise refused("directories nested too deep", name)
    if any(len(os.fsencode(part)) > ARCHIVE_NAME_BYTES for part in parts):
        raise refused("its name is too long", name)
    return Place(parts=tuple(parts))


def _check_marks(place: Place, member: Member) -> None:
    if any(part.startswith(WHITEOUT) for part in place.parts[:-1]):
        raise refused("an entry below a mark", member.name)
    if not place.parts or not place.name.startswith(WHITEOUT):
        return
    if member.kind is not Kind.FILE or member.size:
        raise refused("a mark that is no empty file", member.name)
    if place.is_opaque_mark:
        return
    if place.hidden in {"", ".", ".."} or place.hidden.startswith(WHITEOUT):
        raise refused("an unknown mark", member.name)

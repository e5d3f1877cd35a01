"""Whose the files of a layer are on disk, and which of their special bits mean something there.

With a range of ids (root, or root of a user namespace that has subordinate ids) files keep the ids of the image, so
that USER, sudo and apt work inside. On disk they are real ids, in directories that nobody else can enter; a box gets
them through its own map, so its root is never the host's. With a single id all files are its: the set-id bits would
then only make somebody else's programs run as the user, and go.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from paddock.images.tar import Kind, Member, refused

IDS: Final = 65536  # what every distribution expects to have


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Ids from 0 up to `ids` are kept; with none, everything belongs to whoever unpacks."""

    ids: int
    uid: int = 0  # whom the id of who unpacks stands for: on disk that user's files are theirs
    gid: int = 0

    @property
    def is_squashed(self) -> bool:
        return self.ids == 0

    def owner(self, member: Member) -> tuple[int, int]:
        """What to give a file; (-1, -1) leaves it as it is made."""
        if self.is_squashed:
            return -1, -1
        if member.uid >= self.ids or member.gid >= self.ids:
            raise refused(f"it belongs to {member.uid}:{member.gid}, and boxes have ids below {self.ids}", member.name)
        return member.uid, member.gid

    def shown(self, status: os.stat_result) -> tuple[int, int]:
        """The ids of a file on disk as an image has them."""
        return (0, 0) if self.is_squashed else (status.st_uid, status.st_gid)

    def mode(self, member: Member) -> int:
        """Permissions, with the special bits that mean something for this kind of file."""
        mode = member.mode & 0o777
        if member.kind is Kind.DIRECTORY:
            mode |= member.mode & (stat.S_ISVTX | stat.S_ISGID)
            return mode | 0o700 if self.is_squashed else mode
        if self.is_squashed:
            return mode | 0o400  # ours to read: we are no root who could
        special = 0
        if mode & 0o100:
            special |= member.mode & stat.S_ISUID
        if mode & 0o010:  # without it the bit once meant mandatory locking
            special |= member.mode & stat.S_ISGID
        return mode | special


SQUASHED: Final = Ownership(ids=0)


def of_caller() -> Ownership:
    """Of a directory of the user's that becomes a layer: root's files keep their owners, anybody else's are root's."""
    return Ownership(ids=IDS) if os.getuid() == 0 else SQUASHED

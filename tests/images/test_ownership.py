"""Whose files of a layer are, and which special bits stay: ARC-04."""

from __future__ import annotations

import os

import pytest

from paddock.errors import UserError
from paddock.images import ownership
from paddock.images.ownership import SQUASHED, Ownership
from paddock.images.tar import Kind, Member

WHOLE = Ownership(ids=65536)


def member(mode: int, kind: Kind = Kind.FILE, uid: int = 0, gid: int = 0) -> Member:
    return Member(name="a", kind=kind, mode=mode, uid=uid, gid=gid, size=0, mtime=0)


@pytest.mark.parametrize(
    ("kind", "mode", "whole", "squashed"),
    [
        (Kind.FILE, 0o4755, 0o4755, 0o755),
        (Kind.FILE, 0o2755, 0o2755, 0o755),
        (Kind.FILE, 0o4644, 0o644, 0o644),
        (Kind.FILE, 0o2644, 0o644, 0o644),
        (Kind.FILE, 0o1755, 0o755, 0o755),
        (Kind.FILE, 0o000, 0o000, 0o400),
        (Kind.DIRECTORY, 0o1777, 0o1777, 0o1777),
        (Kind.DIRECTORY, 0o2775, 0o2775, 0o2775),
        (Kind.DIRECTORY, 0o4755, 0o755, 0o755),
        (Kind.DIRECTORY, 0o000, 0o000, 0o700),
    ],
)
def test_special_bits_stay_where_they_mean_something(kind: Kind, mode: int, whole: int, squashed: int) -> None:
    assert WHOLE.mode(member(mode, kind)) == whole
    assert SQUASHED.mode(member(mode, kind)) == squashed


def test_ids_of_the_range_are_kept_and_others_refused() -> None:
    assert WHOLE.owner(member(0, uid=65535, gid=0)) == (65535, 0)
    for uid, gid in ((65536, 0), (0, 65536), (2**32 - 1, 0), (2**40, 0)):
        with pytest.raises(UserError, match="belongs to"):
            WHOLE.owner(member(0, uid=uid, gid=gid))
        assert SQUASHED.owner(member(0, uid=uid, gid=gid)) == (-1, -1)


def test_an_image_of_squashed_files_says_root() -> None:
    status = os.stat("/")
    assert SQUASHED.shown(status) == (0, 0)
    assert WHOLE.shown(status) == (status.st_uid, status.st_gid)


def test_only_a_root_caller_has_a_range() -> None:
    assert ownership.of_caller().is_squashed == (os.geteuid() != 0)

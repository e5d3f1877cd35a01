"""Where an entry of a layer may lie: ARC-01, ARC-03, ARC-07."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.images.names import place_of, place_of_target
from paddock.images.tar import Kind, Member
from paddock.limits import ARCHIVE_DEPTH_MAX


def member(name: str, kind: Kind = Kind.FILE, target: str = "", size: int = 0) -> Member:
    return Member(name=name, kind=kind, mode=0, uid=0, gid=0, size=size, mtime=0, target=target)


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("a", Kind.FILE, "a"),
        ("./a/b", Kind.FILE, "a/b"),
        ("a/b/", Kind.DIRECTORY, "a/b"),
        (".", Kind.DIRECTORY, ""),
        ("./", Kind.DIRECTORY, ""),
        ("...", Kind.FILE, "..."),
        ("a\\b", Kind.FILE, "a\\b"),
        (r"etc/system-systemd\x2dcryptsetup.slice", Kind.FILE, r"etc/system-systemd\x2dcryptsetup.slice"),
        ("-rf", Kind.FILE, "-rf"),
        ("/".join(["d"] * ARCHIVE_DEPTH_MAX), Kind.FILE, "/".join(["d"] * ARCHIVE_DEPTH_MAX)),
    ],
)
def test_a_usual_name_is_a_place_below_the_root(name: str, kind: Kind, path: str) -> None:
    assert place_of(member(name, kind)).path == path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", Kind.FILE),
        ("", Kind.SYMLINK),
        ("/a", Kind.FILE),
        ("//a", Kind.FILE),
        ("C:\\a", Kind.FILE),
        ("c:/a", Kind.FILE),
        ("..", Kind.DIRECTORY),
        ("../a", Kind.FILE),
        ("./../a", Kind.FILE),
        ("a/../../b", Kind.FILE),
        ("a/..", Kind.DIRECTORY),
        ("a/./b", Kind.FILE),
        ("a//b", Kind.FILE),
        ("././a", Kind.FILE),
        (".", Kind.FILE),
        ("a/", Kind.SYMLINK),
        ("a/", Kind.FILE),
        ("./", Kind.SYMLINK),
        ("x" * 256, Kind.FILE),
        ("/".join(["x" * 200] * 21), Kind.FILE),
        ("/".join(["d"] * (ARCHIVE_DEPTH_MAX + 1)), Kind.FILE),
    ],
)
def test_a_name_that_leads_elsewhere_or_is_odd_is_refused(name: str, kind: Kind) -> None:
    with pytest.raises(UserError) as caught:
        place_of(member(name, kind))
    assert caught.value.code == "bad-archive"


def test_marks_are_told_from_files() -> None:
    hides, opaque, plain = (place_of(member(name)) for name in ("a/.wh.b", "a/.wh..wh..opq", "a/.whb"))
    assert (hides.hidden, hides.is_opaque_mark) == ("b", False)
    assert (opaque.hidden, opaque.is_opaque_mark) == ("", True)
    assert (plain.hidden, plain.is_opaque_mark) == ("", False)


@pytest.mark.parametrize(
    ("name", "kind", "size"),
    [
        (".wh.", Kind.FILE, 0),
        (".wh..", Kind.FILE, 0),
        (".wh...", Kind.FILE, 0),
        (".wh..wh.aufs", Kind.FILE, 0),
        (".wh..wh.plnk/a", Kind.FILE, 0),
        (".wh.a/b", Kind.FILE, 0),
        (".wh.a", Kind.DIRECTORY, 0),
        (".wh.a", Kind.SYMLINK, 0),
        (".wh.a", Kind.FILE, 1),
    ],
)
def test_a_mark_that_means_nothing_is_refused(name: str, kind: Kind, size: int) -> None:
    with pytest.raises(UserError):
        place_of(member(name, kind, size=size))


@pytest.mark.parametrize("target", ["", "/etc/passwd", "../a", ".", "a/", "a/.wh.b", ".wh..wh..opq", "a/../../b"])
def test_a_hard_link_names_an_entry_of_its_own_layer(target: str) -> None:
    assert place_of_target(member("x", Kind.HARDLINK, "./a/b")).path == "a/b"
    with pytest.raises(UserError):
        place_of_target(member("x", Kind.HARDLINK, target))

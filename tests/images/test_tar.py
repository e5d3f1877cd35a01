"""One meaning for every byte of an archive: ARC-04, ARC-05, ARC-06."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.images.streams import Part
from paddock.images.tar import Kind, Member, Reader
from tests.images import tars
from tests.support.properties import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOM = 1 << 20


def reader(data: bytes, *, entries_max: int = 100, bytes_max: int = ROOM) -> Reader:
    return Reader(tars.source(data), entries_max=entries_max, bytes_max=bytes_max)


def members(data: bytes) -> list[Member]:
    return list(reader(data))


def contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    archive = reader(data)
    for member in archive:
        read = b""
        while some := archive.read(7):
            read += some
        yield member.name, read


def test_entries_come_with_their_data_whether_it_is_read_or_not() -> None:
    data = tars.archive(tars.file(b"a", b"x" * 1000), tars.directory(b"d/"), tars.file(b"d/b", b"y" * 512))
    assert list(contents(data)) == [("a", b"x" * 1000), ("d/", b""), ("d/b", b"y" * 512)]
    assert [member.name for member in members(data)] == ["a", "d/", "d/b"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_the_standard_library_writes_is_read_as_it_was_meant(form: int) -> None:
    written = io.BytesIO()
    long = "/".join(["directory" * 5] * (3 if form == tarfile.USTAR_FORMAT else 40))
    with tarfile.open(fileobj=written, mode="w", format=form) as archive:
        info = tarfile.TarInfo(long)
        info.size, info.mode, info.uid, info.gid, info.mtime = 3, 0o4751, 1000, 50, 1_700_000_000
        archive.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/" + "x" * (50 if form == tarfile.USTAR_FORMAT else 500)
        archive.addfile(link)
    found = members(written.getvalue())
    assert [(m.name, m.kind, m.size, m.mode, m.uid, m.gid, m.mtime) for m in found[:1]] == [
        (long, Kind.FILE, 3, 0o4751, 1000, 50, 1_700_000_000)
    ]
    assert (found[1].kind, found[1].target) == (Kind.SYMLINK, link.linkname)


def test_pax_records_speak_for_the_next_entry_alone() -> None:
    head = tars.pax(
        [
            (b"path", "ü".encode()),
            (b"size", b"3"),
            (b"uid", b"70000"),
            (b"mtime", b"12.75"),
            (b"SCHILY.xattr.user.a", b"\0=\n"),
        ]
    )
    data = tars.archive(head, tars.header(b"short", size=3), tars.padded(b"abc"), tars.file(b"next", uid=1))
    first, second = members(data)
    assert (first.name, first.size, first.uid, first.mtime) == ("ü", 3, 70000, 12)
    assert first.xattrs == (("user.a", b"\0=\n"),)
    assert (second.name, second.uid, second.xattrs) == ("next", 1, ())


def test_a_comment_for_all_entries_is_what_git_writes_and_passes() -> None:
    assert [m.name for m in members(tars.archive(tars.pax([(b"comment", b"abc")], b"g"), tars.file(b"a")))] == ["a"]


def test_numbers_too_large_for_octal_are_read() -> None:
    size = b"\x80" + (5).to_bytes(11, "big")
    (member,) = members(tars.archive(tars.header(b"a", size=size), tars.padded(b"abcde")))
    assert member.size == 5


def test_bytes_that_are_no_text_stay_the_bytes_they_were() -> None:
    (member,) = members(tars.archive(tars.file(b"\xff\x1b")))
    assert member.name.encode("utf-8", "surrogateescape") == b"\xff\x1b"


GOOD = tars.archive(tars.file(b"a", b"abc"))
REFUSED = {
    "ends inside a header": (GOOD[:100], "ends too early"),
    "ends inside data": (GOOD[:600], "ends too early"),
    "has no end": (GOOD[:1024], "ends too early"),
    "is empty": (b"", "ends too early"),
    "goes on after its end": (GOOD + tars.file(b"b"), "something follows"),
    "has a wrong sum": (GOOD[:10] + b"x" + GOOD[11:], "wrong sum"),
    "has a sparse file": (tars.archive(tars.header(b"a", b"S")), "unknown type"),
    "has a sparse file of pax": (tars.archive(tars.pax([(b"GNU.sparse.major", b"1")]), tars.file(b"a")), "sparse"),
    "has a sparse file of star": (tars.archive(tars.pax([(b"SCHILY.realsize", b"1")]), tars.file(b"a")), "sparse"),
    "has a volume header": (tars.archive(tars.header(b"a", b"V")), "unknown type"),
    "has a multi-volume part": (tars.archive(tars.header(b"a", b"M")), "unknown type"),
    "has data behind a link": (tars.archive(tars.header(b"a", b"2", size=512, target=b"b"), bytes(512)), "with data"),
    "has data behind a directory": (tars.archive(tars.header(b"a/", b"5", size=512), bytes(512)), "with data"),
    "has data behind a hard link": (
        tars.archive(tars.header(b"a", b"1", size=1, target=b"b"), bytes(512)),
        "with data",
    ),
    "names all entries at once": (tars.archive(tars.pax([(b"path", b"x")], b"g"), tars.file(b"a")), "global header"),
    "says a key twice": (tars.archive(tars.pax([(b"path", b"x"), (b"path", b"y")]), tars.file(b"a")), "twice"),
    "has two pax headers": (tars.archive(tars.pax([]), tars.pax([]), tars.file(b"a")), "two headers"),
    "has two long names": (tars.archive(*[tars.gnu_long(b"L", b"x")] * 2, tars.file(b"a")), "two headers"),
    "has names of both kinds": (
        tars.archive(tars.gnu_long(b"L", b"x"), tars.pax([(b"path", b"y")]), tars.file(b"a")),
        "two long names",
    ),
    "has a header for nothing": (tars.archive(tars.pax([(b"path", b"x")])), "does not follow"),
    "has a huge header": (tars.archive(tars.header(b"x", b"x", size=1 << 30)), "too long"),
    "has a negative number": (tars.archive(tars.header(b"a", uid=b"\xff" * 8)), "negative"),
    "has no number": (tars.archive(tars.header(b"a", size=b"12x4")), "no number"),
    "has a minus in pax": (tars.archive(tars.pax([(b"size", b"-1")]), tars.file(b"a")), "no number"),
    "has a pax record without an end": (
        tars.archive(tars.header(b"x", b"x", size=6), tars.padded(b"6 a=bc"), tars.file(b"a")),
        "malformed",
    ),
    "has a pax record of no length": (
        tars.archive(tars.header(b"x", b"x", size=6), tars.padded(b"0 a=b\n"), tars.file(b"a")),
        "malformed",
    ),
    "has a pax record beyond its header": (
        tars.archive(tars.header(b"x", b"x", size=7), tars.padded(b"99 a=b\n"), tars.file(b"a")),
        "malformed",
    ),
    "has a zero byte in a name": (tars.archive(tars.pax([(b"path", b"a\0b")]), tars.file(b"a")), "zero byte"),
    "has too many attributes": (
        tars.archive(tars.pax([(b"SCHILY.xattr.user.%d" % n, b"") for n in range(65)]), tars.file(b"a")),
        "too many",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_archive_is_refused_that(case: str) -> None:
    data, said = REFUSED[case]
    with pytest.raises(UserError, match=said) as caught:
        members(data)
    assert caught.value.code == "bad-archive"


def test_an_archive_has_as_many_entries_as_the_limit_and_no_more() -> None:
    data = tars.archive(*[tars.file(b"%d" % n) for n in range(3)])
    assert len(list(reader(data, entries_max=3))) == 3
    with pytest.raises(UserError, match="too many entries"):
        list(reader(data, entries_max=2))


def test_headers_for_all_entries_count_as_entries() -> None:
    endless = [tars.pax([(b"comment", b"x")], b"g")] * 10
    with pytest.raises(UserError, match="too many entries"):
        list(reader(tars.archive(*endless), entries_max=9))
    assert list(reader(tars.archive(*endless), entries_max=10)) == []


def test_an_empty_file_counts_for_what_it_takes_on_disk() -> None:
    data = tars.archive(*[tars.file(b"%d" % n) for n in range(3)])
    assert len(list(Reader(tars.source(data), entries_max=9, bytes_max=300, entry_bytes=100))) == 3
    with pytest.raises(UserError, match="too much space"):
        list(Reader(tars.source(data), entries_max=9, bytes_max=299, entry_bytes=100))


def test_attributes_count_as_data_does() -> None:
    records = [(b"SCHILY.xattr.user.a", b"x" * 94)]
    data = tars.archive(*[tars.pax(records) + tars.file(b"%d" % n, b"y" * 50) for n in range(3)])
    assert [member.held_bytes for member in reader(data, bytes_max=450)] == [150] * 3
    with pytest.raises(UserError, match="too much space"):
        list(reader(data, bytes_max=449))


def test_zeros_after_the_end_are_padding_and_have_an_end() -> None:
    assert len(members(GOOD + bytes(1 << 20))) == 1
    with pytest.raises(UserError, match="something follows"):
        members(GOOD + bytes(17 << 20))


def test_a_size_beyond_the_room_is_refused_before_any_of_it_is_read() -> None:
    archive = reader(tars.archive(tars.header(b"a", size=b"\x80" + (1 << 40).to_bytes(11, "big"))))
    with pytest.raises(UserError, match="too much space"):
        list(archive)
    assert archive.position == tars.BLOCK


@pytest.mark.parametrize("cut", [0, 1, 512, 1024, 1025, 1500])
def test_data_that_is_passed_over_is_missed_where_a_file_ends_early(tmp_path: Path, cut: int) -> None:
    (tmp_path / "file").write_bytes(tars.archive(tars.file(b"a", b"x" * 1000))[: -cut or None])
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        archive = Reader(Part(fd), entries_max=1, bytes_max=ROOM)
        if cut <= 512:
            assert [member.size for member in archive] == [1000]
        else:
            with pytest.raises(UserError, match="ends too early"):
                list(archive)
    finally:
        os.close(fd)


def test_a_refusal_shows_no_control_characters_of_the_archive() -> None:
    with pytest.raises(UserError) as caught:
        members(tars.archive(tars.header(b"\x1b[2J", b"S")))
    assert "\x1b" not in caught.value.message


@bounded
@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_any_bytes_are_read_or_refused(junk: bytes, at: int) -> None:
    sound = tars.archive(
        tars.pax([(b"path", b"x")]), tars.file(b"a", b"abc"), tars.gnu_long(b"L", b"b"), tars.file(b"c")
    )
    for data in (junk, sound[:at] + junk + sound[at:], sound[:at] + junk + sound[at + len(junk) :]):
        with contextlib.suppress(UserError):
            members(data)

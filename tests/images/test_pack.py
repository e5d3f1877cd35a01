"""A tree becomes an archive and the archive the same tree, whatever is in it."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.images import archive, marks, pack, tree
from paddock.images.ownership import SQUASHED, Ownership, of_caller
from tests.images import tars
from tests.support.properties import bounded

if TYPE_CHECKING:
    from pathlib import Path


def packed(path: Path, ownership: Ownership = SQUASHED) -> bytes:
    written = io.BytesIO()
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        pack.pack(fd, written, ownership)
    finally:
        os.close(fd)
    return written.getvalue()


def unpacked(data: bytes, path: Path, ownership: Ownership = SQUASHED) -> str:
    """Unpack into a new directory; returns the sum of the tree."""
    path.mkdir()
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        archive.unpack(tars.source(data), fd, ownership)
        return tree.digest(fd)
    finally:
        os.close(fd)


def furnish(path: Path) -> None:
    (path / "deep/er").mkdir(parents=True)
    (path / "deep/er/file").write_bytes(b"x" * 70_000)
    (path / "deep" / ("n" * 200)).write_bytes(b"long")
    (path / "deep" / os.fsdecode(b"\xff" * 150)).write_bytes(b"long, and no text")
    (path / os.fsdecode(b"line\nbreak \xff")).touch()
    (path / "ü").symlink_to("/absolute/" + "t" * 300)
    os.symlink(b"\xfe" * 200, os.fsencode(path) + b"/raw")
    os.link(path / "deep/er/file", path / "same")
    (path / "closed").mkdir(mode=0o711)
    os.setxattr(path / "closed", "user.note", b"\0\n=")
    fd = os.open(path / "deep", os.O_RDONLY)
    marks.make_opaque(fd)
    marks.hide(fd, "gone")
    os.close(fd)
    (path / "program").write_bytes(b"#!")
    (path / "program").chmod(0o755)
    os.utime(path / "program", (1, 1_500_000_000))


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    furnish(tmp_path / "a")
    ownership = of_caller()
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    before = tree.digest(fd)
    os.close(fd)
    data = packed(tmp_path / "a", ownership)
    assert unpacked(data, tmp_path / "b", ownership) == before
    assert packed(tmp_path / "b", ownership) == data


def test_the_standard_library_reads_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    furnish(tmp_path / "a")
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path / "a"))) as found:
        names = {member.name: member for member in found.getmembers()}
    assert names["deep/er/file"].size == 70_000
    assert names["same"].linkname == "deep/er/file"
    assert names["ü"].linkname == "/absolute/" + "t" * 300
    assert names["deep/.wh..wh..opq"].isreg()
    assert names["deep/.wh.gone"].isreg()
    assert names["closed"].pax_headers["SCHILY.xattr.user.note"] == "\0\n="
    assert os.fsdecode(b"deep/" + b"\xff" * 150) in names


@pytest.mark.privileged
def test_owners_are_kept_where_there_is_a_range_of_ids(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").touch()
    os.chown(tmp_path / "a/file", 1000, 3_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path / "a", Ownership(ids=65536)))) as found:
        member = found.getmember("file")
    assert (member.uid, member.gid) == (1000, 3_000_000)


def test_files_of_one_owner_are_roots_in_the_archive(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path))) as found:
        assert {(member.uid, member.gid, member.uname) for member in found.getmembers()} == {(0, 0, "")}


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(tmp_path / "socket"))
        assert unpacked(packed(tmp_path), tmp_path.with_name("again"))
    assert os.listdir(tmp_path.with_name("again")) == []


@pytest.mark.parametrize("name", [".wh.file", ".wh..wh..opq", ".wh."])
def test_a_name_that_would_remove_a_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UserError, match="means a removed file") as caught:
        packed(tmp_path)
    assert caught.value.code == "reserved-name"


def test_content_that_is_in_another_layer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.setxattr(tmp_path / "file", "user.overlay.metacopy", b"")
    with pytest.raises(UserError, match="another layer"):
        packed(tmp_path)


@bounded
@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=300),
    st.integers(0, 2**33 - 1),
    st.integers(0, 2**32 - 2),
    st.dictionaries(st.text("ab.", min_size=1, max_size=5), st.binary(max_size=2000), max_size=3),
)
def test_any_header_is_read_as_it_was_written(name: str, mtime: int, uid: int, xattrs: dict[str, bytes]) -> None:
    from paddock.images.tar import Reader

    data = pack._header(name, b"0", mtime=mtime, owner=(uid, 7), xattrs=xattrs) + bytes(1024)
    (member,) = Reader(tars.source(data), entries_max=1, bytes_max=10_000)
    assert (member.name, member.mtime, member.uid, member.gid, dict(member.xattrs)) == (name, mtime, uid, 7, xattrs)

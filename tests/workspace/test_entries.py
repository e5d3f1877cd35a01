from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import entries
from paddock.workspace.entries import NOTHING, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(b"bytes")
    (tmp_path / "same").write_bytes(b"bytes")
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "dirlink").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("file", Entry.FILE),
        ("dir", Entry.DIR),
        ("link", Entry.SYMLINK),
        ("fifo", Entry.OTHER),
        ("missing", Entry.NOTHING),
        ("dir/missing", Entry.NOTHING),
        ("file/x", Entry.NOTHING),
        ("dirlink/passwd", Entry.NOTHING),
    ],
)
def test_a_place_is_looked_at_without_following(root: int, path: str, entry: Entry) -> None:
    assert entries.look(root, path).entry is entry
    assert entries.look_closely(root, path).entry is entry


def test_a_close_look_reads_the_content(root: int) -> None:
    assert entries.look_closely(root, "file").digest == hashlib.sha256(b"bytes").hexdigest()


@pytest.mark.parametrize("path", ["dir", "link", "fifo", "missing", "dirlink/passwd"])
def test_only_regular_files_are_opened(root: int, path: str) -> None:
    with pytest.raises(OSError, match=path.rpartition("/")[2]):
        entries.open_file(root, path)


def test_content_is_the_same_or_not_whatever_modes_and_times(root: int, tmp_path: Path) -> None:
    (tmp_path / "same").chmod(0o400)
    one, other = entries.look_closely(root, "file"), entries.look_closely(root, "same")
    assert one.same_content(other)
    assert not one.untouched(other)
    assert not one.same_content(NOTHING)


def test_a_change_of_mode_is_a_touch(root: int, tmp_path: Path) -> None:
    before = entries.look_closely(root, "file")
    assert before.untouched(entries.look(root, "file"))
    (tmp_path / "file").chmod(0o400)
    assert not before.untouched(entries.look(root, "file"))


@pytest.mark.parametrize(("most", "expected"), [(5, b"bytes"), (4, None)])
def test_no_more_is_read_than_allowed(root: int, most: int, expected: bytes | None) -> None:
    assert entries.read_file(root, "file", most) == expected


def test_a_file_that_grows_for_ever_is_not_read_for_ever(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * entries.CHUNK_BYTES * 2)
    fd = os.open(tmp_path / "file", os.O_RDWR)

    def read_and_grow() -> None:
        for _ in entries.chunks(fd):
            os.ftruncate(fd, os.fstat(fd).st_size + 2 * entries.CHUNK_BYTES)

    try:
        assert len(b"".join(entries.chunks(fd))) == 2 * entries.CHUNK_BYTES
        with pytest.raises(OSError, match="growing"):
            read_and_grow()
    finally:
        os.close(fd)

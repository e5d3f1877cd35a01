from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import place
from paddock.workspace.entries import NOTHING, Entry, Seen
from paddock.workspace.place import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def at(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "old").write_text("old", "utf-8")
    (tmp_path / "fresh").write_text("new", "utf-8")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture(params=["swap", "no swap"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Some file systems cannot swap; the answers are the same."""

    def unable(*_: object) -> None:
        raise OSError(errno.EINVAL, "this file system cannot")

    if request.param == "no swap":
        monkeypatch.setattr(place, "exchange", unable)
        monkeypatch.setattr(place, "rename_new", unable)
    return str(request.param)


def names(tmp_path: Path) -> dict[str, str]:
    return {entry.name: entry.read_text("utf-8") if entry.is_file() else "/" for entry in tmp_path.iterdir()}


def test_new_content_takes_the_place_of_the_old(way: str, at: int, tmp_path: Path) -> None:
    place.swap_in(at, "fresh", "old", place.content(at, "old"))
    assert names(tmp_path) == {"old": "new"}


def test_new_content_takes_a_free_place(way: str, at: int, tmp_path: Path) -> None:
    place.swap_in(at, "fresh", "free", NOTHING)
    assert names(tmp_path) == {"old": "old", "free": "new"}


def test_what_is_not_as_expected_stays_and_nothing_of_ours_is_left(way: str, at: int, tmp_path: Path) -> None:
    before = place.content(at, "old")
    (tmp_path / "old").write_text("edited", "utf-8")
    with pytest.raises(Conflict, match="content changed"):
        place.swap_in(at, "fresh", "old", before)
    assert names(tmp_path) == {"old": "edited"}


def test_a_changed_mode_is_not_as_expected(way: str, at: int, tmp_path: Path) -> None:
    before = place.content(at, "old")
    (tmp_path / "old").chmod(0o600)
    with pytest.raises(Conflict, match="0600"):
        place.swap_in(at, "fresh", "old", before)
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o600


def test_a_taken_place_is_not_taken_twice(way: str, at: int, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="something there"):
        place.swap_in(at, "fresh", "old", NOTHING)
    assert names(tmp_path) == {"old": "old"}


def test_what_is_gone_is_not_brought_back(way: str, at: int, tmp_path: Path) -> None:
    before = place.content(at, "old")
    (tmp_path / "old").unlink()
    with pytest.raises(Conflict, match="gone"):
        place.swap_in(at, "fresh", "old", before)
    assert names(tmp_path) == {}


def test_a_directory_takes_the_place_of_a_file_and_the_other_way_round(way: str, at: int, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    place.swap_in(at, "dir", "old", place.content(at, "old"))
    assert names(tmp_path) == {"old": "/", "fresh": "new"}
    place.swap_in(at, "fresh", "old", place.content(at, "old"))
    assert names(tmp_path) == {"old": "new"}


def test_a_directory_with_something_in_it_stays(way: str, at: int, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir/host").touch()
    with pytest.raises(Conflict, match="something in it"):
        place.swap_in(at, "fresh", "dir", place.content(at, "dir"))
    assert names(tmp_path) == {"old": "old", "dir": "/"}
    assert (tmp_path / "dir/host").exists()


def test_what_is_as_expected_is_taken_out(way: str, at: int, tmp_path: Path) -> None:
    place.take_out(at, "old", "aside", place.content(at, "old"))
    assert names(tmp_path) == {"fresh": "new"}


@pytest.mark.parametrize("edit", ["edited", ""])
def test_what_is_not_as_expected_is_not_taken_out(way: str, at: int, tmp_path: Path, edit: str) -> None:
    before = place.content(at, "old")
    (tmp_path / "old").write_text(edit, "utf-8")
    with pytest.raises(Conflict):
        place.take_out(at, "old", "aside", before)
    assert names(tmp_path) == {"old": edit, "fresh": "new"}


def test_a_missing_one_cannot_be_taken_out(way: str, at: int) -> None:
    with pytest.raises(Conflict, match="gone"):
        place.take_out(at, "missing", "aside", place.content(at, "old"))


def _expected(content: bytes) -> Seen:
    return Seen(entry=Entry.FILE, size=len(content), digest=hashlib.sha256(content).hexdigest())


def test_a_copy_of_what_grew_is_not_begun(at: int, tmp_path: Path) -> None:
    """A box makes a file of terabytes in a moment; the copy of it would fill the host's disk."""
    expected = place.content(at, "old")
    os.truncate(tmp_path / "old", 1 << 40)
    source = os.open(tmp_path / "old", os.O_RDONLY)
    with pytest.raises(Conflict, match="changed"):
        place.copy(source, at, "copy", expected)
    os.close(source)
    assert not (tmp_path / "copy").exists()


def test_a_copy_has_the_bytes_of_the_digest_or_is_not_there(at: int, tmp_path: Path) -> None:
    source = os.open(tmp_path / "old", os.O_RDONLY)
    os.close(place.copy(source, at, "copy", _expected(b"old")))
    with pytest.raises(Conflict):
        place.copy(source, at, "wrong", _expected(b"new"))
    os.close(source)
    assert names(tmp_path) == {"old": "old", "fresh": "new", "copy": "old"}


def test_permissions_are_set_without_following_a_link(at: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("old")
    with pytest.raises(Conflict):
        place.chmod(at, "link", 0o777)
    place.chmod(at, "old", 0o100)
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o100


def test_a_new_directory_keeps_the_group_bit_it_inherited(at: int, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2755)
    (tmp_path / "shared/new").mkdir()
    fd = os.open(tmp_path / "shared/new", os.O_RDONLY)
    place.own(fd, 0o755, os.fstat(fd))
    os.close(fd)
    assert (tmp_path / "shared/new").stat().st_mode & 0o7777 == 0o2755

"""The sum of a tree sees every change that a box would see."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images import marks, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "b/c").mkdir(parents=True)
    (tmp_path / "b/c/file").write_bytes(b"content")
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "z")
    for path in [*tmp_path.rglob("*"), tmp_path]:
        os.utime(path, (1, 1), follow_symlinks=False)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a_directory_comes_before_what_is_in_it_and_names_in_the_order_of_bytes(root: int) -> None:
    os.mkdir(b"\xff", dir_fd=root)
    os.mkdir("é", dir_fd=root)
    paths = [os.fsencode(entry.path) for entry in tree.entries(root)]
    assert paths == [b"", b"a", b"b", b"b/c", b"b/c/file", b"link", b"z", "é".encode(), b"\xff"]


def _opaque(path: Path) -> None:
    fd = os.open(path / "b", os.O_RDONLY)
    marks.make_opaque(fd)
    os.close(fd)


def _relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("b")


def _copy(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"content")
    os.utime(path, (1, 1))


def _white_out(path: Path) -> None:
    path.unlink()
    os.mknod(path, stat.S_IFCHR, 0)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda path: (path / "b/c/file").write_bytes(b"CONTENT"),
    "permissions": lambda path: (path / "b/c/file").chmod(0o4755),
    "permissions of a directory": lambda path: (path / "b").chmod(0o700),
    "a new file": lambda path: (path / "new").touch(),
    "a removed file": lambda path: (path / "b/c/file").unlink(),
    "a renamed file": lambda path: (path / "b/c/file").rename(path / "b/c/other"),
    "a moved file": lambda path: (path / "b/c/file").rename(path / "b/file"),
    "a link to elsewhere": lambda path: _relink(path / "link"),
    "a hard link that became a copy": lambda path: _copy(path / "z"),
    "a time": lambda path: os.utime(path / "a", (1, 100)),
    "an attribute": lambda path: os.setxattr(path / "a", "user.x", b"1"),
    "a mark": _opaque,
    "a whiteout": lambda path: _white_out(path / "z"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_sum_is_another_after(root: int, tmp_path: Path, change: str) -> None:
    before = tree.digest(root)
    assert tree.digest(root) == before
    CHANGES[change](tmp_path)
    for path in ("", "b", "b/c"):
        os.utime(tmp_path / path, (1, 1))  # that something changed in them must not be all that is seen
    assert tree.digest(root) != before


def test_attributes_are_those_of_an_image(root: int, tmp_path: Path) -> None:
    os.setxattr(tmp_path / "a", "user.note", b"1")
    os.setxattr(tmp_path / "a", "user.overlay.origin", b"1")
    (entry,) = [entry for entry in tree.entries(root) if entry.path == "a"]
    fd = entry.open()
    try:
        assert tree.attributes(fd) == {"user.note": b"1"}
    finally:
        os.close(fd)


def test_a_tree_deeper_than_any_image_is_refused_and_nothing_stays_open(root: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.makedirs(f"/proc/self/fd/{root}/" + "/".join(["d"] * 130))
    with pytest.raises(UserError, match="too deep"):
        tree.digest(root)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    monkeypatch.setattr("paddock.images.tree.ARCHIVE_ENTRIES", 2)
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(UserError, match="more than 2 files"):
            list(tree.entries(root))
    finally:
        os.close(root)

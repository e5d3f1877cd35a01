"""What stacks of layers show, and in what two of them differ."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.images.stacks import Stack, differences

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def trees(tmp_path: Path) -> list[str]:
    """A base, a layer that changes it, and one that hides some of it."""
    base, middle, top = (tmp_path / name for name in ("base", "middle", "top"))
    for path in ("a/b", "c", "d/e"):
        (base / path).mkdir(parents=True)
    for path in ("a/b/file", "c/file", "d/e/file", "file", "same"):
        (base / path).write_text("base")
    (middle / "a").mkdir(parents=True)
    (middle / "a/new").write_text("middle")
    (middle / "file").write_text("changed")
    (middle / "same").write_text("base")
    os.mknod(middle / "c", stat.S_IFCHR, 0)
    (top / "d").mkdir(parents=True)
    os.setxattr(top / "d", "user.overlay.opaque", b"y")
    (top / "d/own").write_text("top")
    (top / "c").mkdir()
    (top / "a").write_text("a file now")
    return [str(base), str(middle), str(top)]


def test_a_layer_hides_what_lies_below_it(trees: list[str]) -> None:
    def seen(count: int, path: str) -> str | None:
        found = Stack(trees[:count]).find(path)
        return None if found is None else os.path.basename(found[0][: -len(path) - 1])

    assert [seen(count, "a/b/file") for count in (1, 2, 3)] == ["base", "base", None]
    assert [seen(count, "c/file") for count in (1, 2, 3)] == ["base", None, None]
    assert [seen(count, "c") for count in (1, 2, 3)] == ["base", None, "top"]
    assert [seen(count, "d/e/file") for count in (1, 2, 3)] == ["base", "base", None]
    assert [seen(count, "file") for count in (1, 2, 3)] == ["base", "middle", "middle"]
    assert repr(Stack(trees)) == "<Stack 3 layers>"


def test_differences_are_told_by_what_is_seen(trees: list[str]) -> None:
    def told(one: int, other: int) -> set[str]:
        found, whole = differences(trees[:one], trees[:other], 100)
        assert whole
        return {f"{item.kind} {item.path}" for item in found}

    assert told(2, 2) == set()
    assert told(1, 2) == {"added a/new", "changed file", "removed c", "removed c/file"}
    assert told(2, 1) == {"removed a/new", "changed file", "added c", "added c/file"}
    assert told(2, 3) == {
        *("changed a", "removed a/new", "removed a/b", "removed a/b/file", "added c"),
        *("removed d/e", "removed d/e/file", "added d/own"),
    }
    found, whole = differences(trees[:2], trees, 2)
    assert (len(found), whole) == (2, False)


def test_no_link_is_followed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        tree.mkdir()
        (tree / "link").symlink_to("/etc")
    assert Stack([str(one)]).find("link/passwd") is None
    assert differences([str(one)], [str(other)], 10) == ([], True)
    (other / "link").unlink()
    (other / "link").symlink_to("/usr")
    found, _ = differences([str(one)], [str(other)], 10)
    assert [(item.kind, item.path) for item in found] == [("changed", "link")]


def _hollow(path: Path, last: bytes = b"") -> None:
    """A terabyte of nothing, and perhaps something at its end."""
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(-len(last), os.SEEK_END)
        file.write(last)


def test_holes_are_not_read(tmp_path: Path) -> None:
    """Two terabytes would take half an hour."""
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        tree.mkdir()
        _hollow(tree / "same", b"end")
        _hollow(tree / "empty")
    _hollow(one / "zeros")
    _hollow(other / "zeros", b"\0")  # data that is what a hole reads as
    _hollow(one / "differs", b"x")
    _hollow(other / "differs", b"y")
    found, whole = differences([str(one)], [str(other)], 10)
    assert ([item.path for item in found], whole) == (["differs"], True)


def test_data_around_holes_is_compared(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    piece = 1 << 20
    for tree, byte in ((one, b"a"), (other, b"b")):
        tree.mkdir()
        for name, at in (("first", 0), ("second", 5 * piece + 1), ("last", 9 * piece)):
            with (tree / name).open("wb") as file:
                file.truncate(9 * piece + 1)
                file.seek(3 * piece)
                file.write(b"x" * 2 * piece)
                file.seek(at)
                file.write(byte)
    (one / "like").write_bytes(b"z" * 3 * piece)
    (other / "like").write_bytes(b"z" * 3 * piece)
    found, _ = differences([str(one)], [str(other)], 10)
    assert [item.path for item in found] == ["first", "last", "second"]


def test_neither_memory_nor_time_is_the_boxs_to_take(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        tree.mkdir()
    for number in range(100):
        (other / f"{number:04}").touch()
    assert len(differences([str(one)], [str(other)], 1000)[0]) == 100
    found, whole = differences([str(one)], [str(other)], 1000, paths_bytes=25 * (200 + len("0000")))
    assert (len(found), whole) == (25, False)
    assert differences([str(one)], [str(other)], 1000, seconds=0) == ([], False)

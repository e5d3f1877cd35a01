"""Host paths beside a tree that a box writes: its links are refused, the person's own are followed."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.fs import resolving

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a link out of it, and a link of the person's own into it."""
    (tmp_path / "ws/sub/deep").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    (tmp_path / "ws/file").write_text("file")
    (tmp_path / "ws/out").symlink_to(tmp_path / "secret")
    (tmp_path / "ws/up").symlink_to("..")
    (tmp_path / "ws/inside").symlink_to("sub")
    (tmp_path / "ws/loop").symlink_to("loop")
    (tmp_path / "mine").symlink_to("ws/sub")
    (tmp_path / "trap").symlink_to("ws/out")
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trees(tree: Path) -> list[str]:
    return [str(tree / "ws")]


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("ws", "ws"),
        ("ws/sub/../file", "ws/file"),
        ("./ws//sub/.", "ws/sub"),
        ("mine/deep", "ws/sub/deep"),
        ("ws/new/file", "ws/new/file"),
        ("secret/key", "secret/key"),
        ("nowhere/at/all", "nowhere/at/all"),
    ],
)
def test_a_path_without_a_link_of_the_box_is_resolved(tree: Path, path: str, resolved: str) -> None:
    assert resolving.resolve(path, trees(tree)) == str(tree / resolved)
    assert resolving.resolve(str(tree / path), trees(tree)) == str(tree / resolved)


@pytest.mark.parametrize(
    "path", ["ws/out", "ws/out/key", "ws/up/secret", "ws/inside/deep", "ws/loop", "trap/key", "mine/../out", "circle"]
)
def test_a_link_in_the_tree_is_refused(tree: Path, path: str) -> None:
    if path not in {"ws/loop", "circle"}:
        os.stat(path)  # the oracle: the kernel would follow it
    with pytest.raises(UserError, match="is a symbolic link"):
        resolving.resolve(path, trees(tree))


def test_outside_all_trees_every_link_is_the_persons_own(tree: Path) -> None:
    assert resolving.resolve("ws/out/key", []) == str(tree / "secret/key")


def test_dots_after_a_link_are_counted_from_where_it_leads(tree: Path) -> None:
    assert os.path.abspath("mine/../file") == str(tree / "file"), "the oracle: text alone is wrong"
    assert resolving.resolve("mine/../file", trees(tree)) == str(tree / "ws/file") == os.path.realpath("mine/../file")
    (tree / "into").symlink_to("ws/sub/..")
    assert resolving.resolve("into", trees(tree)) == str(tree / "ws")


@pytest.mark.parametrize("path", ["ws", "ws/file", "ws/sub/deep", "secret/key"])
def test_what_was_resolved_is_opened(tree: Path, path: str) -> None:
    fd = resolving.open_resolved(str(tree / path), trees(tree), os.O_RDONLY)
    try:
        assert os.path.samestat(os.fstat(fd), os.stat(tree / path))
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("swapped", ["ws/sub", "ws/file"])
def test_a_link_put_there_after_the_look_is_not_followed(tree: Path, swapped: str) -> None:
    path = "ws/sub/deep" if swapped == "ws/sub" else swapped
    resolved = resolving.resolve(path, trees(tree))
    (tree / "secret/deep").mkdir()
    os.rename(tree / swapped, tree / "aside")
    (tree / swapped).symlink_to(tree / ("secret" if swapped == "ws/sub" else "secret/key"))
    os.close(os.open(resolved, os.O_RDONLY))  # the oracle: a plain open follows it
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number is looked at below
        os.close(resolving.open_resolved(resolved, trees(tree), os.O_RDONLY))
    assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}


def test_a_fifo_does_not_hold_us(tree: Path) -> None:
    os.mkfifo(tree / "ws/fifo")
    os.mkfifo(tree / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        resolving.open_resolved(str(tree / "ws/fifo"), trees(tree), os.O_RDONLY)
    os.close(resolving.open_resolved(str(tree / "fifo"), trees(tree), os.O_RDONLY))

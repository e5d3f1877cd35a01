from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.fs import swap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ODD = "line\nbreak \udcff"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[int]:
    for name in ("one", ODD):
        (tmp_path / name).write_text(name, "utf-8", "surrogateescape")
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a_free_name_is_taken(at: int, tmp_path: Path) -> None:
    swap.rename_new(at, ODD, at, "free")
    assert sorted(os.listdir(tmp_path)) == ["free", "one"]


def test_a_taken_name_is_left_alone(at: int, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        swap.rename_new(at, ODD, at, "one")
    assert (tmp_path / "one").read_text("utf-8") == "one"


def test_a_dangling_link_is_a_taken_name(at: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        swap.rename_new(at, ODD, at, "link")


def test_two_names_are_swapped_whatever_they_mean(at: int, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    swap.exchange(at, "one", at, "dir")
    assert (tmp_path / "one").is_dir()
    assert (tmp_path / "dir").read_text("utf-8") == "one"


def test_nothing_is_swapped_with_a_missing_name(at: int, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        swap.exchange(at, "one", at, "missing")
    assert (tmp_path / "one").read_text("utf-8") == "one"

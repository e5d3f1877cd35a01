"""A path in a chain of directories: what the box sees there, and nothing that a link leads to."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.images import marks
from paddock.images.chains import open_entry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def chain(tmp_path: Path) -> list[str]:
    """Three layers: what the lower ones have is replaced, hidden and seen through."""
    trees = [tmp_path / name for name in ("one", "two", "three")]
    for tree in trees:
        tree.mkdir()
    one, two, three = trees
    for path in ("a/file", "gone/file", "was/deep/file", "opaque/file", "replaced/file"):
        (one / path).parent.mkdir(parents=True, exist_ok=True)
        (one / path).write_text(f"one {path}")
    (two / "a").mkdir()
    (two / "a/file").write_text("two")
    (two / "opaque").mkdir()
    (two / "opaque/new").write_text("two")
    fd = os.open(two / "opaque", os.O_RDONLY)
    marks.make_opaque(fd)
    os.close(fd)
    os.mknod(two / "gone", stat.S_IFCHR, 0)
    (two / "replaced").write_text("a file")
    (three / "a").mkdir()
    (three / "a/link").symlink_to("/etc")
    (three / "was").symlink_to("/etc")
    os.mkfifo(three / "fifo")
    (tmp_path / "outside").write_text("outside")
    (three / "out").symlink_to("../outside")
    return [os.fspath(tree) for tree in trees]


def read(chain: list[str], path: str) -> str:
    with open(open_entry(chain, path, os.O_RDONLY), encoding="ascii") as file:
        return file.read()


def test_the_highest_layer_that_says_something_is_right(chain: list[str]) -> None:
    assert read(chain, "a/file") == "two"
    assert read(chain[:1], "a/file") == "one a/file"
    assert read(chain, "./opaque//new") == "two"
    assert read(chain[:1], "opaque/file") == "one opaque/file", "the oracle: it is there without the mark"


@pytest.mark.parametrize("path", ["gone/file", "gone", "opaque/file", "none", "a/none/deep"])
def test_what_a_layer_hides_is_not_there(chain: list[str], path: str) -> None:
    with pytest.raises(FileNotFoundError):
        open_entry(chain, path, os.O_PATH)


@pytest.mark.parametrize("path", ["was/passwd", "was/deep/file", "replaced/file", "a/link/passwd", "out", "a/link"])
def test_no_link_is_followed_and_no_file_is_a_directory(chain: list[str], path: str) -> None:
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_entry(chain, path, os.O_RDONLY)


def test_what_has_no_end_is_not_opened_and_no_path_leads_out(chain: list[str]) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_entry(chain, "fifo", os.O_RDONLY)
    for path in ("../outside", "a/../../outside"):
        with pytest.raises(OSError, match="leads out"):
            open_entry(chain, path, os.O_RDONLY)

"""A name is known by the file it means, not by an inode number that is soon another's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.fs.births import born

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_stays_the_same_while_it_is_written_renamed_or_linked(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    (tmp_path / "one").touch()
    first = born(one)
    found = os.stat(one)
    assert first[:3] == (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
    with open(one, "a", encoding="ascii") as file:
        file.write("more")
    os.link(one, other)
    assert born(one) == born(other) == first
    os.rename(one, str(tmp_path / "third"))
    assert born(str(tmp_path / "third")) == first


def test_another_file_under_the_same_name_is_another_even_with_its_inode(tmp_path: Path) -> None:
    seen = set()
    for _ in range(20):
        (tmp_path / "file").mkdir()
        seen.add(born(str(tmp_path / "file")))
        (tmp_path / "file").rmdir()
    assert len(seen) == 20


def test_nothing_is_empty_and_a_link_is_itself(tmp_path: Path) -> None:
    assert born(str(tmp_path / "none")) == ()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    assert born(str(tmp_path / "link"))[2] == os.lstat(tmp_path / "link").st_ino
    assert born(str(tmp_path / "file" / "below")) == ()

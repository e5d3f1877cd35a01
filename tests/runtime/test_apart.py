"""Work with the ids of boxes does what it does with one's own, and says what went wrong there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.runtime import apart

if TYPE_CHECKING:
    from pathlib import Path


def test_trees_are_copied_and_compared_also_where_their_owner_closed_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    (source / "closed/file").write_text("x")
    (source / "closed/file").chmod(0)
    (source / "closed").chmod(0)
    apart.copy(str(source), str(tmp_path / "copy"))
    try:
        assert apart.differences([str(source)], [str(tmp_path / "copy")], 10) == ([], True)
        (tmp_path / "copy/new\udc80").write_text("")
        found, whole = apart.differences([str(source)], [str(tmp_path / "copy")], 10)
        assert ([(item.kind, item.path) for item in found], whole) == ([("added", "new\udc80")], True)
    finally:
        for tree in (source, tmp_path / "copy"):
            assert os.lstat(tree / "closed").st_mode & 0o777 == 0
            (tree / "closed").chmod(0o700)


def test_an_error_there_is_an_error_here(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot copy .*No such file"):
        apart.copy(str(tmp_path / "none"), str(tmp_path / "copy"))

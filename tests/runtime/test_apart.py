"""Work with the ids of boxes does what it does with one's own, and says what went wrong there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.runtime import apart, boxparts

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


def test_a_new_directory_is_like_another_but_for_what_an_overlay_says(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    os.setxattr(model, "user.kept", b"1")
    os.setxattr(model, "user.overlay.opaque", b"y")
    model.chmod(0o751)
    apart.make_like(str(model), str(tmp_path / "made"))
    assert os.listxattr(tmp_path / "made") == ["user.kept"]
    assert (tmp_path / "made").stat().st_mode == model.stat().st_mode


def test_what_lies_in_a_closed_directory_counts(tmp_path: Path) -> None:
    """A box writes on below a directory that it has closed, or as another of its users; its limit is of all of it."""
    tree = tmp_path / "tree"
    (tree / "closed/below").mkdir(parents=True)
    (tree / "closed/below/file").write_bytes(b"x" * 100_000)
    (tree / "root/work/work").mkdir(parents=True)
    for path in ("closed", "root/work/work"):
        (tree / path).chmod(0)
    try:
        size, is_whole = apart.tree_bytes(str(tree), 1000, 20.0, passing=("root/work/work",))
        assert size > 100_000
        assert is_whole
        assert apart.tree_bytes(str(tree), 2, 20.0)[1] is False, "a bound is one there, too"
    finally:
        for path in ("closed", "root/work/work"):
            (tree / path).chmod(0o700)


def test_what_only_the_kernel_writes_needs_no_other_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every box with an overlay has such a directory, and is measured again and again."""
    (tmp_path / "root/work/work").mkdir(parents=True)
    (tmp_path / "root/work/work").chmod(0)
    monkeypatch.setattr(apart, "_do", pytest.fail)
    try:
        assert apart.tree_bytes(str(tmp_path), 1000, 20.0, passing=boxparts.KERNELS)[1]
    finally:
        (tmp_path / "root/work/work").chmod(0o700)

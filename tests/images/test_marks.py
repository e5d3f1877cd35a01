"""The kernel's own marks of hidden files, as anybody may make them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.images import marks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a_whiteout_is_what_the_kernel_takes_for_one(directory: int, tmp_path: Path) -> None:
    marks.hide(directory, "gone")
    (tmp_path / "file").touch()
    assert marks.is_whiteout(os.lstat(tmp_path / "gone"))
    assert not marks.is_whiteout(os.lstat(tmp_path / "file"))
    assert not marks.is_whiteout(os.lstat("/dev/null"))
    with pytest.raises(FileExistsError):
        marks.hide(directory, "file")


def test_an_opaque_directory_is_marked_for_mounts_in_user_namespaces(directory: int) -> None:
    assert not marks.is_opaque(directory)
    marks.make_opaque(directory)
    assert marks.is_opaque(directory)
    assert os.listxattr(directory) == ["user.overlay.opaque"]


@pytest.mark.parametrize("name", ["user.overlay.redirect", "user.overlay.metacopy"])
def test_a_mark_that_points_into_other_layers_is_seen(directory: int, name: str) -> None:
    assert not marks.is_foreign(directory)
    os.setxattr(directory, name, b"/etc")
    assert marks.is_foreign(directory)

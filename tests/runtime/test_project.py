"""A workspace's paddock.toml is read as what it is: something the box may have put there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.limits import PROJECT_FILE_BYTES
from paddock.runtime import project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_its_text_is_read_and_none_is_empty(tmp_path: Path) -> None:
    assert project.read(str(tmp_path)) == ""
    (tmp_path / project.FILE).write_text("[network]\n")
    assert project.read(str(tmp_path)) == "[network]\n"


@pytest.mark.parametrize(
    "plant",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_bytes(b" " * (PROJECT_FILE_BYTES + 1)),
        lambda path: path.symlink_to("/dev/zero"),
    ],
    ids=["link", "directory", "fifo", "binary", "large", "device"],
)
def test_whatever_else_lies_there_is_refused_and_named(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    plant(tmp_path / project.FILE)
    with pytest.raises(UserError) as caught:
        project.read(str(tmp_path))
    assert caught.value.code == "bad-project"
    assert f"{tmp_path}/{project.FILE}" in caught.value.message

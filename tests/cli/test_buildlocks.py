"""The lock file of a build."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.cli import buildlocks
from paddock.errors import UserError
from paddock.model.build import LockedBase, LockedStep, LockInfo

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    odd = 'RUN echo "\\x" \x7f é # [[step]]\\n'
    lock = LockInfo(
        bases=(LockedBase(name="./a b", digest="sha256:1"),),
        steps=(LockedStep(line=2, does=odd, key="k"), LockedStep(line=3, does="COPY a", key="l")),
        digest="sha256:2",
    )
    path = str(tmp_path / "lock")
    buildlocks.write(path, lock)
    assert buildlocks.read(path) == lock
    buildlocks.write(path, LockInfo())
    assert buildlocks.read(path) == LockInfo()


@pytest.mark.parametrize(
    "text", ["", "version = 2\n", "version = 1\nmore = 1\n", "version = 1\n[[base]]\nname = 1\n", "\xff", "version ="]
)
def test_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="cannot be read"):
        buildlocks.read(str(tmp_path / "lock"))


def test_what_cannot_be_written_or_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no lock file"):
        buildlocks.read(str(tmp_path / "none"))


def test_no_link_of_a_box_is_followed(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "ws/sub").symlink_to(tmp_path / "mine")
    buildlocks.write(str(tmp_path / "ws/sub/lock"), LockInfo())  # the oracle: nobody else's
    (tmp_path / "ws/lock").symlink_to(tmp_path / "mine/lock")
    trees = [str(tmp_path / "ws")]
    for name in ("sub/lock", "lock"):
        with pytest.raises(UserError, match="is a symbolic link"):
            buildlocks.write(str(tmp_path / "ws" / name), LockInfo(), trees)
        with pytest.raises(UserError, match="symbolic link"):
            buildlocks.read(str(tmp_path / "ws" / name), trees)
    os.mkfifo(tmp_path / "ws/fifo")
    with pytest.raises(UserError, match="cannot be read"):
        buildlocks.read(str(tmp_path / "ws/fifo"), trees)
    buildlocks.write(str(tmp_path / "ws/plain"), LockInfo(), trees)
    assert buildlocks.read(str(tmp_path / "ws/plain"), trees) == LockInfo()

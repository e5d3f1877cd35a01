"""Files that the daemon fills."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from paddock.client import outgoing as subject
from paddock.client.outgoing import absolute, outgoing
from paddock.errors import Unavailable, UserError

if TYPE_CHECKING:
    from pathlib import Path


def fill(path: Path, text: str, directory: int | None = None) -> None:
    with outgoing(str(path), directory) as name, open(name, "w", encoding="ascii") as file:
        file.write(text)


@pytest.fixture(params=["nameless", "named"])
def _forms(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all file systems have files without a name."""
    if request.param == "named":
        real = os.open

        def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "not supported")
            return real(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "open", refusing)


@pytest.mark.usefixtures("_forms")
def test_it_appears_when_it_is_whole_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("one", "two"):
        fill(path, text)
        assert path.read_text() == text
    assert [*tmp_path.iterdir()] == [path]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("_forms")
def test_after_an_error_all_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with outgoing(str(path)) as name, open(name, "w", encoding="ascii") as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "file").symlink_to("mine")
    fill(tmp_path / "file", "new")
    assert (tmp_path / "mine").read_text() == "precious"
    assert (tmp_path / "file").read_text() == "new"


def test_it_goes_where_the_descriptor_is_whatever_the_path_means_by_then(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    directory = os.open(tmp_path / "place", os.O_RDONLY)
    (tmp_path / "place").rename(tmp_path / "moved")
    (tmp_path / "place").symlink_to("/nonexistent")
    fill(tmp_path / "place/file", "here", directory)
    os.close(directory)
    assert (tmp_path / "moved/file").read_text() == "here"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing/file"):
        with pytest.raises(UserError):
            fill(path, "x")
    with pytest.raises(Unavailable, match="cannot write x: No space"), subject._translated("x"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert absolute("x") == f"{os.getcwd()}/x"

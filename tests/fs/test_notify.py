"""A file's change is noticed however it comes about, and nothing else is taken for one."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

import pytest

from paddock.fs import notify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write_in_place(path: Path) -> None:
    path.write_text("new content")


def replace_by_rename(path: Path) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text("new")
    fresh.rename(path)


def remove(path: Path) -> None:
    path.unlink()


def heard(files: notify.Files) -> bool:
    return bool(select.select([files], [], [], 5)[0])


@pytest.mark.parametrize("act", [write_in_place, replace_by_rename, remove])
def test_a_change_is_heard_and_named_once(tmp_path: Path, act: Callable[[Path], None]) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("old")
    with notify.Files([str(path), str(tmp_path / "other")]) as files:
        assert files.changed() == []
        assert files.is_quiet()
        act(path)
        assert heard(files)
        assert not files.is_quiet()
        assert files.changed() == [str(path)]
        assert files.changed() == []


def test_a_file_whose_directories_are_made_later_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a/b/policy.toml"
    with notify.Files([str(path)]) as files:
        path.parent.parent.mkdir()
        assert heard(files)
        assert files.changed() == []
        path.parent.mkdir()
        assert heard(files)
        assert files.changed() == []
        path.write_text("new")
        assert heard(files)
        assert files.changed() == [str(path)]


def test_a_change_behind_a_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("old")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/file").symlink_to(tmp_path / "real/file")
    with notify.Files([str(tmp_path / "here/file")]) as files:
        replace_by_rename(tmp_path / "real/file")
        assert heard(files)
        assert files.changed() == [str(tmp_path / "here/file")]


def test_what_happens_to_neighbours_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("old")
    with notify.Files([str(path)]) as files:
        (tmp_path / "neighbour").write_text("new")
        assert heard(files)
        assert files.changed() == []


def test_looking_works_without_inotify(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    with notify.Files([str(path)]) as files:
        files.close()
        assert not files.is_quiet()
        path.write_text("new")
        assert files.changed() == [str(path)]
        assert repr(files) == "<Files 1 watched without inotify>"


def test_a_signature_tells_a_missing_file_from_an_empty_one(tmp_path: Path) -> None:
    assert notify.signature(os.fspath(tmp_path / "none")) is None
    (tmp_path / "empty").touch()
    assert notify.signature(os.fspath(tmp_path / "empty")) is not None

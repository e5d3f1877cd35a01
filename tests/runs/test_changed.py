"""Which files changed since a moment, in trees that an agent wrote."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from paddock.reports import ChangedInfo
from paddock.runs import changed
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path


def moment(near: Path) -> int:
    """A time after every stamp so far, and not after any to come: by the clock that stamps files."""
    probe = near / "probe"

    def stamp() -> int:
        probe.write_text(str(time.monotonic_ns()))
        return os.stat(probe).st_ctime_ns

    first = stamp()
    until(lambda: stamp() > first, "the clock of files went on")
    now = os.stat(probe).st_ctime_ns
    probe.unlink()
    return now


def found(root: Path, since_ns: int, *hidden: str, layer: bool = False) -> ChangedInfo:
    return changed.files(os.fspath(root), since_ns, hidden, layer=layer)


def test_files_written_since_are_named_and_older_ones_and_gits_own_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("sub/deep", ".git", "secret", "nested/.GIT"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "old").write_text("x")
    (tmp_path / "renamed").write_text("x")
    since = moment(tmp_path)
    for name in ("sub/deep/new", ".git/index", "secret/key", ".env", "nested/.GIT/config", "top"):
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("old")
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path, since, "secret", ".env") == ChangedInfo(count=2, names=("sub/deep/new", "top"))
    assert "secret/key" in found(tmp_path, since).names
    os.rename(tmp_path / "renamed", tmp_path / "another")
    assert "another" in found(tmp_path, since).names


def test_a_time_that_its_owner_sets_back_is_no_hiding_place(tmp_path: Path) -> None:
    since = moment(tmp_path)
    (tmp_path / "new").write_text("x")
    os.utime(tmp_path / "new", ns=(0, 0))
    assert found(tmp_path, since).names == ("new",)


def test_the_first_names_are_kept_and_the_rest_is_counted(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"f{number:04}").touch()
    told = found(tmp_path, 0)
    assert (told.count, len(told.names), told.names[0], told.complete) == (3000, 20, "f0000", True)


def test_names_are_harmless(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb\nc").touch()
    (tmp_path / os.fsdecode(b"\xff")).touch()
    assert found(tmp_path, 0).names == (r"a\x1b[2Jb\nc", r"\xff")


def test_a_bound_is_kept_and_said(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"f{number}").touch()
    few = changed.files(os.fspath(tmp_path), 0, entries_max=10)
    assert (few.count, few.complete) == (10, False)
    none = changed.files(os.fspath(tmp_path), 0, seconds_max=0.0)
    assert (none.count, none.complete) == (0, False)


def test_a_workspace_that_is_gone_or_a_link_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/new").touch()
    (tmp_path / "link").symlink_to("real")
    assert found(tmp_path / "none", 0) == ChangedInfo(complete=False)
    assert found(tmp_path / "link", 0) == ChangedInfo(complete=False)


def test_a_deep_tree_is_walked_to_its_end(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 20, dir_fd=at)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("last", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    told = found(tmp_path, 0)
    assert (told.count, told.complete) == (1, True)


@pytest.mark.privileged
def test_in_a_layer_deletions_and_links_count_too(tmp_path: Path) -> None:
    os.mknod(tmp_path / "deleted", 0o20000, os.makedev(0, 0))
    os.mknod(tmp_path / "pipe", 0o10600)
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "file").touch()
    assert found(tmp_path, 0, layer=True).names == ("deleted", "file", "link")
    assert found(tmp_path, 0).names == ("file",)

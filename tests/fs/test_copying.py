"""A copy of a tree has all that it has, and nothing of what it points to."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.errors import Unavailable, UserError
from paddock.fs import copying

if TYPE_CHECKING:
    from pathlib import Path


def facts(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = f"{directory}/{name}"
            status = os.lstat(path)
            content: object = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read(1 << 20)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            found[path[len(str(root)) :]] = (status.st_mode, size, status.st_mtime_ns, status.st_rdev, content)
    return found


def test_everything_of_a_tree_is_in_its_copy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep/er").mkdir(parents=True)
    (source / "deep/er/file").write_bytes(b"x" * 70_000)
    (source / "script").write_text("#!/bin/sh\n")
    (source / "script").chmod(0o751)
    (source / "out").symlink_to("/etc/passwd")
    (source / "broken").symlink_to("nowhere")
    os.mkfifo(source / "fifo")
    os.mknod(source / "hidden", stat.S_IFCHR, 0)
    os.setxattr(source / "deep", "user.overlay.opaque", b"y")
    os.link(source / "script", source / "deep/again")
    with open(source / "sparse", "wb") as file:
        file.truncate(1 << 40)
        os.pwrite(file.fileno(), b"end", (1 << 40) - 3)
    (source / "deep").chmod(0o500)
    os.utime(source / "deep", ns=(1, 2))
    fs.copy_tree(str(source), str(tmp_path / "copy"))
    assert facts(tmp_path / "copy") == facts(source)
    assert os.getxattr(tmp_path / "copy/deep", "user.overlay.opaque") == b"y"
    assert os.lstat(tmp_path / "copy/script").st_ino == os.lstat(tmp_path / "copy/deep/again").st_ino
    assert os.lstat(tmp_path / "copy/script").st_ino != os.lstat(source / "script").st_ino
    assert os.lstat(tmp_path / "copy/sparse").st_blocks < 1 << 12, "a hole takes no room"


def test_no_right_is_copied_that_a_program_would_have(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "program").write_text("x")
    (source / "program").chmod(0o6755)
    fs.copy_tree(str(source), str(tmp_path / "copy"))
    assert (tmp_path / "copy/program").stat().st_mode & 0o7777 == 0o755


def test_a_link_in_the_place_of_the_copy_gives_no_file_of_the_host_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lie where a box can rename it; a file of two names is linked to what was copied, and not by a path."""
    (tmp_path / "source/.ssh/deep").mkdir(parents=True)
    (tmp_path / "source/.ssh/keys").write_text("of the box")
    os.link(tmp_path / "source/.ssh/keys", tmp_path / "source/.ssh/deep/keys")
    (tmp_path / "victim/.ssh").mkdir(parents=True)
    (tmp_path / "victim/.ssh/keys").write_text("of the host")
    content = copying._content

    def swap(*args: int) -> None:
        content(*args)
        os.rename(tmp_path / "copy", tmp_path / "moved")
        (tmp_path / "copy").symlink_to("victim")

    monkeypatch.setattr(copying, "_content", swap)
    fs.copy_tree(str(tmp_path / "source"), str(tmp_path / "copy"))
    assert (tmp_path / "moved/.ssh/deep/keys").read_text() == "of the box"
    assert (tmp_path / "victim/.ssh/keys").stat().st_nlink == 1


def test_what_cannot_be_copied_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "none"):
        with pytest.raises(Unavailable, match="cannot copy"):
            fs.copy_tree(str(tmp_path / name), str(tmp_path / "copy"))
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=here)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    with pytest.raises(UserError, match="too long a path"):
        fs.copy_tree(str(tmp_path / ("d" * 200)), str(tmp_path / "copy"))
    fs.remove_tree(str(tmp_path / ("d" * 200)))


def test_names_of_directories_do_not_fill_our_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of four thousand bytes would: so many are refused, and none is held before."""
    (tmp_path / "source").mkdir()
    for number in range(20):
        (tmp_path / f"source/{number:08}").mkdir()
    fs.copy_tree(str(tmp_path / "source"), str(tmp_path / "copy"))
    monkeypatch.setattr(copying, "_PATHS_BYTES", 1000)
    with pytest.raises(UserError, match="too long a path"):
        fs.copy_tree(str(tmp_path / "source"), str(tmp_path / "other"))

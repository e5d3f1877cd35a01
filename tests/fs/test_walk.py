"""The one descriptor with which a tree is walked."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from paddock.fs.walk import Cursor, Moved, file_system, is_missing, is_scarcity, mount_id, open_up
from tests.fs.children import bind, in_mount_namespace, open_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def base(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("a")
    fd = os.open(tmp_path, os.O_PATH)
    yield fd
    os.close(fd)


def test_down_and_up_again_ends_where_it_began(base: int) -> None:
    before = open_descriptors()
    with Cursor(base, open_up=False) as cursor:
        for name in "abc":
            cursor.down(name)
        assert [cursor.up().name for _ in "abc"] == ["c", "b", "a"]
        assert cursor.fd == base
    assert open_descriptors() == before


def test_any_depth_costs_one_descriptor(base: int) -> None:
    before = open_descriptors()
    with Cursor(base, open_up=False) as cursor:
        for name in "abc":
            cursor.down(name)
            assert open_descriptors() == before + 1
    assert open_descriptors() == before


@pytest.mark.parametrize(("name", "code"), [("link", errno.ENOTDIR), ("missing", errno.ENOENT)])
def test_neither_a_link_nor_nothing_is_entered(base: int, name: str, code: int) -> None:
    before = open_descriptors()
    with Cursor(base, open_up=False) as cursor, pytest.raises(OSError, match=name) as caught:
        cursor.down(name)
    assert caught.value.errno == code
    assert open_descriptors() == before


def test_a_directory_moved_meanwhile_is_noticed(base: int, tmp_path: Path) -> None:
    before = open_descriptors()
    with Cursor(base, open_up=False) as cursor:
        for name in "abc":
            cursor.down(name)
        (tmp_path / "a/b/c").rename(tmp_path / "elsewhere/c")
        with pytest.raises(Moved):
            cursor.up()
    assert open_descriptors() == before


def test_a_bind_mount_of_the_same_file_system_is_not_entered(base: int, tmp_path: Path) -> None:
    def act() -> None:
        bind(f"{tmp_path}/elsewhere", f"{tmp_path}/a/b")
        assert os.stat(tmp_path / "a").st_dev == os.stat(tmp_path / "a/b").st_dev
        at = os.open(tmp_path, os.O_PATH)
        with Cursor(at, open_up=True) as cursor:
            cursor.down("a")
            with pytest.raises(OSError, match="mounted"):
                cursor.down("b")

    in_mount_namespace(act)


def test_mount_ids_are_those_of_mountinfo(base: int) -> None:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        assert mount_id(base) in {int(line.split()[0]) for line in file}


def test_opening_up_adds_the_owners_rights_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o2005)
    fd = os.open(tmp_path, os.O_PATH)
    open_up(fd)
    os.close(fd)
    assert tmp_path.stat().st_mode & 0o7777 == 0o2705


@pytest.mark.parametrize(
    ("number", "is_scarce"),
    [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ENOMEM, True), (errno.ENOENT, False), (errno.EACCES, False)],
)
def test_no_room_to_look_is_told_from_nothing_to_see(number: int, is_scarce: bool) -> None:
    assert is_scarcity(OSError(number, "")) == is_scarce


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    found = {name: is_missing(str(tmp_path / name)) for name in ("file", "link", "none", "file/below", "none/below")}
    assert found == {"file": False, "link": False, "none": True, "file/below": True, "none/below": True}


def test_what_cannot_be_looked_at_is_not_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        is_missing(str(tmp_path / ("x" * 300)))


def test_a_file_system_is_named_as_in_the_mount_table() -> None:
    for path, name in (("/proc", "proc"), ("/proc/self", "proc"), ("/sys", "sysfs")):
        fd = os.open(path, os.O_PATH)
        assert file_system(fd) == name
        os.close(fd)

"""Our own directories are private, and our own files are whole: SPEC-09, FLT-05."""

from __future__ import annotations

import os
import resource
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable, UserError
from paddock.fs import make_private_dir, private, write_atomic
from tests.fs.children import (
    ORDINARY_UID,
    STRANGER_UID,
    as_ordinary_user,
    bind,
    in_child,
    in_mount_namespace,
    mount,
    open_descriptors,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_directory_is_made_with_its_parents(ground: str, umask: int) -> None:
    def act() -> None:
        os.umask(umask)
        make_private_dir(f"{ground}/a/b/c")
        assert [mode(f"{ground}/{below}") for below in ("a", "a/b", "a/b/c")] == [0o700] * 3

    as_ordinary_user(act)


def test_making_it_again_changes_nothing_in_it(ground: str) -> None:
    def act() -> None:
        make_private_dir(f"{ground}/own")
        write_atomic(f"{ground}/own/file", b"kept")
        before = open_descriptors()
        make_private_dir(f"{ground}/own/")
        assert open_descriptors() == before
        assert os.listdir(f"{ground}/own") == ["file"]

    as_ordinary_user(act)


def test_a_directory_others_can_read_is_closed_to_them(ground: str) -> None:
    def act() -> None:
        os.mkdir(f"{ground}/own", 0o755)
        make_private_dir(f"{ground}/own")
        assert mode(f"{ground}/own") == 0o700

    as_ordinary_user(act)


def link_to_a_fine_directory(ground: str) -> None:
    os.mkdir(f"{ground}/fine", 0o700)
    os.symlink(f"{ground}/fine", f"{ground}/own")


def dangling_link(ground: str) -> None:
    os.symlink(f"{ground}/nothing", f"{ground}/own")


def file(ground: str) -> None:
    write_atomic(f"{ground}/own", b"")


def group_can_write(ground: str) -> None:
    os.mkdir(f"{ground}/own")
    os.chmod(f"{ground}/own", 0o720)


def all_can_write(ground: str) -> None:
    os.mkdir(f"{ground}/own")
    os.chmod(f"{ground}/own", 0o1777)


def parent_all_can_write(ground: str) -> None:
    os.chmod(ground, 0o777)


def parent_group_can_write(ground: str) -> None:
    os.chmod(ground, 0o770)


def loop_on_the_way(ground: str) -> None:
    os.symlink("loop", f"{ground}/loop")
    os.symlink("loop/x", f"{ground}/own")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (link_to_a_fine_directory, "is a symbolic link"),
        (dangling_link, "is a symbolic link"),
        (file, "is not a directory"),
        (group_can_write, "others could write to"),
        (all_can_write, "others could write to"),
        (parent_all_can_write, "others can write to"),
        (parent_group_can_write, "others can write to"),
        (loop_on_the_way, "is a symbolic link"),
    ],
)
def test_an_unsafe_directory_is_refused_with_a_hint(ground: str, spoil: Callable[[str], None], said: str) -> None:
    if os.getuid() and spoil is parent_group_can_write and private._is_our_own_group(os.getgid()):
        pytest.skip("this user has a group of their own, with which nobody else can write")

    def act() -> None:
        make_private_dir(f"{ground}/oracle")
        spoil(ground)
        with pytest.raises(UserError, match=said) as caught:
            make_private_dir(f"{ground}/own")
        assert ground in caught.value.message
        assert caught.value.hint
        assert caught.value.code == "unsafe-directory"
        assert not os.path.exists(f"{ground}/nothing")

    as_ordinary_user(act)


@pytest.mark.privileged
@pytest.mark.parametrize("whose", ["own", "parent", "link"])
def test_what_belongs_to_a_stranger_is_refused(ground: str, whose: str) -> None:
    os.mkdir(f"{ground}/parent")
    os.mkdir(f"{ground}/elsewhere")
    os.symlink("elsewhere", f"{ground}/link")
    os.mkdir(f"{ground}/own", 0o700)
    for name in ("parent", "elsewhere", "link", "own"):
        os.chown(f"{ground}/{name}", ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
    target = f"{ground}/own" if whose == "own" else f"{ground}/{whose}/own"
    as_ordinary_user(lambda: make_private_dir(target))
    os.chown(f"{ground}/{whose}", STRANGER_UID, STRANGER_UID, follow_symlinks=False)

    def act() -> None:
        with pytest.raises(UserError, match=f"uid {STRANGER_UID}"):
            make_private_dir(target)

    as_ordinary_user(act)


def test_links_of_our_own_on_the_way_are_followed(ground: str) -> None:
    def act() -> None:
        os.makedirs(f"{ground}/disk/home", 0o700)
        os.symlink(f"{ground}/disk", f"{ground}/absolute")
        os.symlink("../disk/../disk/home", f"{ground}/disk/relative")
        make_private_dir(f"{ground}/absolute/relative/own")
        assert mode(f"{ground}/disk/home/own") == 0o700

    as_ordinary_user(act)


def test_a_link_into_an_unsafe_directory_is_no_way_round(ground: str) -> None:
    def act() -> None:
        os.mkdir(f"{ground}/open")
        os.chmod(f"{ground}/open", 0o777)
        os.symlink("open", f"{ground}/link")
        with pytest.raises(UserError, match="others can write"):
            make_private_dir(f"{ground}/link/own")

    as_ordinary_user(act)


def test_root_without_a_number_is_still_root_in_a_user_namespace(ground: str) -> None:
    """In a rootless container the directories of the host's root look like nobody's."""

    def act() -> None:
        assert os.stat("/").st_uid == 65534
        make_private_dir(f"{ground}/own")
        assert mode(f"{ground}/own") == 0o700

    as_ordinary_user(lambda: in_mount_namespace(act))


@pytest.mark.privileged
@pytest.mark.parametrize(("members", "accepted"), [("", True), ("ann", True), ("ann,bob", False)])
def test_a_parent_that_our_own_group_can_write_to_is_fine(ground: str, members: str, accepted: bool) -> None:
    """Distributions that give each user a group set umask 002."""
    with (
        open(f"{ground}/passwd", "x", encoding="ascii") as passwd,
        open(f"{ground}/group", "x", encoding="ascii") as group,
    ):
        passwd.write(f"ann:x:{ORDINARY_UID}:{ORDINARY_UID}::/:/bin/sh\n")
        group.write(f"ann:x:{ORDINARY_UID}:{members}\n")
    for name in ("passwd", "group"):
        os.chmod(f"{ground}/{name}", 0o644)

    def act() -> None:
        os.chmod(ground, 0o775)
        if accepted:
            make_private_dir(f"{ground}/own")
            return
        with pytest.raises(UserError, match="others can write"):
            make_private_dir(f"{ground}/own")

    def with_files() -> None:
        bind(f"{ground}/passwd", "/etc/passwd")
        bind(f"{ground}/group", "/etc/group")
        as_ordinary_user(act)

    in_mount_namespace(with_files)


@pytest.mark.parametrize("path", ["", "relative", "/", "/tmp/../tmp/x"])
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="private directory"):
        make_private_dir(path)


def test_a_read_only_parent_is_named_as_the_machines_fault(ground: str) -> None:
    def act() -> None:
        os.mkdir(f"{ground}/closed", 0o500)
        with pytest.raises(Unavailable, match="Permission denied"):
            make_private_dir(f"{ground}/closed/own")

    as_ordinary_user(act)


# -- write_atomic -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("umask", "wanted"), [(0o777, 0o600), (0o000, 0o600), (0o077, 0o644)])
def test_content_and_mode_are_as_asked(tmp_path: Path, umask: int, wanted: int) -> None:
    def act() -> None:
        os.umask(umask)
        write_atomic(f"{tmp_path}/file", b"one", wanted)
        write_atomic(f"{tmp_path}/file", b"two" * 1_000_000, wanted)
        assert mode(f"{tmp_path}/file") == wanted

    in_child(act)
    assert (tmp_path / "file").read_bytes() == b"two" * 1_000_000
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "file").symlink_to("precious")
    write_atomic(f"{tmp_path}/file", b"new")
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_reader_sees_the_old_or_the_new_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(str(path), b"a" * 100_000)
    for letter in (b"b", b"c", b"d"):
        with path.open("rb") as reader:
            write_atomic(str(path), letter * 100_000)
            assert len(set(reader.read())) == 1
        assert path.read_bytes() == letter * 100_000


def test_data_is_on_disk_before_its_name_and_the_name_before_we_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(fd: int) -> None:
        steps.append("fsync directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "fsync file")
        fsync(fd)

    def record_rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        steps.append("rename")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    write_atomic(f"{tmp_path}/file", b"data")
    assert steps == ["fsync file", "rename", "fsync directory"]
    write_atomic(f"{tmp_path}/file", b"more", sync=False)
    assert steps[3:] == ["rename"]


def test_a_full_disk_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    def act() -> None:
        mount("tmpfs", str(tmp_path), "tmpfs", options="size=64k,mode=0700")
        write_atomic(f"{tmp_path}/file", b"old")
        with pytest.raises(Unavailable, match="No space left") as caught:
            write_atomic(f"{tmp_path}/file", b"x" * 100_000)
        assert "free some space" in caught.value.hint
        assert (tmp_path / "file").read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]
        write_atomic(f"{tmp_path}/file", b"new")
        assert (tmp_path / "file").read_bytes() == b"new"

    in_mount_namespace(act)


def test_a_write_cut_short_by_a_limit_leaves_the_old_content(tmp_path: Path) -> None:
    def act() -> None:
        write_atomic(f"{tmp_path}/file", b"old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(Unavailable, match="File too large"):
            write_atomic(f"{tmp_path}/file", b"x" * 100_000)

    in_child(act)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PaddockError, match="missing/file") as caught:
        write_atomic(f"{tmp_path}/missing/file", b"")
    assert caught.value.kind == "unavailable"

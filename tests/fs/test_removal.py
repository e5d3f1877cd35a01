"""Removing what an agent left behind: FS-20, FLT-18, ARC-10."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.fs import discard_tree, remove_tree
from paddock.fs import removal as removal_module
from tests.fs.children import (
    STRANGER_UID,
    allow_descriptors,
    as_ordinary_user,
    bind,
    in_mount_namespace,
    open_descriptors,
)
from tests.fs.test_beneath import background, exchanger
from tests.fs.trees import close_all, make_deep, make_odd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.box


def test_every_kind_of_entry_goes_and_no_descriptor_stays(ground: str) -> None:
    def act() -> None:
        before = open_descriptors()
        make_odd(f"{ground}/tree")
        remove_tree(f"{ground}/tree/")
        assert os.listdir(ground) == []
        assert open_descriptors() == before

    as_ordinary_user(act)


def test_a_missing_path_is_fine(tmp_path: Path) -> None:
    remove_tree(f"{tmp_path}/missing")
    remove_tree(f"{tmp_path}/missing/deeper")


@pytest.mark.parametrize("path", ["/", "", ".", "..", "x/..", "x/."])
def test_what_has_no_name_in_a_directory_is_refused(path: str) -> None:
    with pytest.raises(Unavailable, match="cannot remove"):
        remove_tree(path)


def test_a_link_goes_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "link").symlink_to("precious")
    remove_tree(f"{tmp_path}/link")
    assert os.listdir(tmp_path) == ["precious"]
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "precious")
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path / "precious") == ["file"]


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o200, 0o400, 0o500])
def test_closed_directories_are_opened_and_removed(ground: str, mode: int) -> None:
    def act() -> None:
        os.makedirs(f"{ground}/tree/a/b/c")
        make_odd(f"{ground}/tree/a/odd")
        close_all(f"{ground}/tree", mode)
        if os.geteuid() != 0:
            with pytest.raises(PermissionError):
                os.unlink(f"{ground}/tree/a/odd/hard")
        remove_tree(f"{ground}/tree")
        assert os.listdir(ground) == []

    as_ordinary_user(act)


def test_ten_thousand_levels_take_neither_descriptors_nor_recursion(ground: str) -> None:
    def act() -> None:
        make_deep(f"{ground}/tree", 10_000)
        allow_descriptors(4)
        remove_tree(f"{ground}/tree")
        assert os.listdir(ground) == []

    as_ordinary_user(act)


def test_names_in_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_module, "_NAMES_HELD", 3)
    for one in range(10):
        for two in range(10):
            (tmp_path / f"tree/{one}/{two}").mkdir(parents=True)
            for number in range(10):
                (tmp_path / f"tree/{one}/{two}/{number}").touch()
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == []


@pytest.mark.privileged
def test_what_cannot_go_is_named_and_the_rest_goes(ground: str) -> None:
    for name in ("a", "kept/deep", "z"):
        os.makedirs(f"{ground}/tree/{name}")
        open(f"{ground}/tree/{name}/file", "x").close()
    os.chown(f"{ground}/tree/kept/deep", STRANGER_UID, STRANGER_UID)
    for path in (f"{ground}/tree", f"{ground}/tree/a", f"{ground}/tree/kept", f"{ground}/tree/z"):
        os.chown(path, os.stat(ground).st_uid, -1)

    def act() -> None:
        with pytest.raises(Unavailable, match=r"tree/kept/deep/file' .Permission denied") as caught:
            remove_tree(f"{ground}/tree")
        assert caught.value.message.count("Permission denied") == 1
        assert caught.value.hint
        assert os.listdir(f"{ground}/tree") == ["kept"]

    as_ordinary_user(act)
    remove_tree(f"{ground}/tree")
    assert os.listdir(ground) == []


@pytest.mark.privileged
def test_what_is_stuck_is_tried_and_named_once_however_often_it_is_listed(
    ground: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal_module, "_NAMES_HELD", 1)
    os.makedirs(f"{ground}/tree/kept")
    open(f"{ground}/tree/kept/file", "x").close()
    for number in range(20):
        os.mkdir(f"{ground}/tree/{number}")
    os.chown(f"{ground}/tree", os.stat(ground).st_uid, -1)

    def act() -> None:
        with pytest.raises(Unavailable) as caught:
            remove_tree(f"{ground}/tree")
        assert caught.value.message.count("kept/file") == 1
        assert "more" not in caught.value.message

    as_ordinary_user(act)


@pytest.mark.privileged
def test_an_immutable_file_is_named(ground: str) -> None:
    os.makedirs(f"{ground}/tree/dir")
    path = f"{ground}/tree/dir/fixed"
    open(path, "x").close()
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode != 0:
        pytest.skip("this file system has no immutable files")
    try:
        with pytest.raises(Unavailable, match=r"dir/fixed' .Operation not permitted") as caught:
            remove_tree(f"{ground}/tree")
        assert "lsattr" in caught.value.hint
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    remove_tree(f"{ground}/tree")
    assert os.listdir(ground) == []


@pytest.mark.privileged
def test_many_failures_are_counted_and_odd_names_neutralised(ground: str) -> None:
    os.mkdir(f"{ground}/tree", 0o755)
    for number in range(150):
        open(f"{ground}/tree/\x1b[2J\n{number}", "x").close()

    def act() -> None:
        os.chmod(ground, 0o755)
        with pytest.raises(Unavailable, match="and 97 more") as caught:
            remove_tree(f"{ground}/tree")
        assert caught.value.message.isprintable()

    as_ordinary_user(act)


@pytest.mark.parametrize("where", ["tree", "tree/a/mounted"])
def test_a_bind_mount_is_named_and_never_entered(tmp_path: Path, where: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").touch()
    (tmp_path / "tree/a/mounted").mkdir(parents=True)
    (tmp_path / "tree/b").mkdir()

    def act() -> None:
        bind(str(project), f"{tmp_path}/{where}")
        with pytest.raises(Unavailable, match="something is mounted there") as caught:
            remove_tree(f"{tmp_path}/tree")
        assert repr(f"{tmp_path}/{where}") in caught.value.message

    in_mount_namespace(act)
    assert (project / "file").exists()
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == ["project"]


def writer(path: str) -> Callable[[int], None]:
    """Fills a directory as fast as it can."""

    def fill(ready: int) -> None:
        os.write(ready, b".")
        number = 0
        while True:
            number += 1
            with contextlib.suppress(OSError):
                os.mkdir(f"{path}/{number % 50}")

    return fill


def test_a_tree_that_is_written_to_goes_or_is_named_but_never_hangs(tmp_path: Path) -> None:
    (tmp_path / "tree/busy").mkdir(parents=True)
    with background(writer(f"{tmp_path}/tree/busy")):
        began = time.monotonic()
        with contextlib.suppress(Unavailable):
            remove_tree(f"{tmp_path}/tree")
        assert time.monotonic() - began < 60
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == []


def test_files_that_appear_meanwhile_are_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree/dir").mkdir(parents=True)
    late = iter(range(100))
    real = os.rmdir

    def rmdir_with_late_files(name: str, *, dir_fd: int) -> None:
        if name == "dir" and next(late) < 90:
            os.close(os.open("dir/late", os.O_CREAT, dir_fd=dir_fd))
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir_with_late_files)
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == []


def naive_remove(path: Path) -> None:
    for name in os.listdir(path):
        os.unlink(path / name)


def test_a_swap_for_a_link_never_leads_the_removal_out(tmp_path: Path) -> None:
    """The agent swaps a directory for a link to the user's project while the host removes."""
    precious, tree, fresh = tmp_path / "precious", tmp_path / "tree", tmp_path / "fresh"
    precious.mkdir()
    make_swappable(tree, precious)
    naive_escapes = rounds = 0
    deadline = time.monotonic() + 60
    with background(exchanger(tree / "dir", tree / "link")):
        while rounds < 500 or not naive_escapes:
            assert time.monotonic() < deadline, "INCONCLUSIVE: the naive removal never escaped"
            rounds += 1
            (precious / "file").touch()
            with contextlib.suppress(OSError):
                naive_remove(tree / "dir")
            naive_escapes += not (precious / "file").exists()
            make_swappable(fresh, precious)
            with contextlib.suppress(Unavailable):
                remove_tree(str(tree))
            assert (precious / "file").exists()
            remove_tree(str(tree))
            fresh.rename(tree)


def make_swappable(tree: Path, precious: Path) -> None:
    (tree / "dir").mkdir(parents=True)
    for number in range(10):
        (tree / f"dir/{number}").touch()
    (precious / "file").touch()
    (tree / "link").symlink_to(precious)


# -- discard_tree -----------------------------------------------------------------------------------------------------


def test_a_discarded_tree_is_out_of_the_way_at_once(ground: str) -> None:
    def act() -> None:
        os.mkdir(f"{ground}/trash")
        places = set()
        for _ in range(3):
            make_odd(f"{ground}/tree")
            places.add(discard_tree(f"{ground}/tree", f"{ground}/trash"))
            assert os.listdir(ground) == ["trash"]
        assert {os.path.dirname(place) for place in places} == {f"{ground}/trash"}
        assert len(places) == 3
        for place in places:
            remove_tree(place)
        assert os.listdir(f"{ground}/trash") == []

    as_ordinary_user(act)


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_closed_tree_can_be_discarded(ground: str, mode: int) -> None:
    def act() -> None:
        os.mkdir(f"{ground}/trash")
        os.mkdir(f"{ground}/tree")
        os.chmod(f"{ground}/tree", mode)
        if os.geteuid() != 0:
            with pytest.raises(PermissionError):
                os.rename(f"{ground}/tree", f"{ground}/trash/tree")
        remove_tree(discard_tree(f"{ground}/tree", f"{ground}/trash"))
        assert os.listdir(f"{ground}/trash") == []

    as_ordinary_user(act)


def test_a_missing_tree_can_be_discarded(tmp_path: Path) -> None:
    (tmp_path / "trash").mkdir()
    remove_tree(discard_tree(f"{tmp_path}/missing", f"{tmp_path}/trash"))


def test_a_link_is_discarded_and_not_its_target(tmp_path: Path) -> None:
    for name in ("trash", "precious"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("precious")
    assert os.path.islink(discard_tree(f"{tmp_path}/link", f"{tmp_path}/trash"))
    assert (tmp_path / "precious").is_dir()


def test_a_missing_trash_is_named(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    with pytest.raises(Unavailable, match="trash"):
        discard_tree(f"{tmp_path}/tree", f"{tmp_path}/trash")
    assert (tmp_path / "tree").is_dir()


def test_a_trash_on_another_file_system_is_named(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("one file system")
    with pytest.raises(Unavailable, match="cross-device"):
        discard_tree(f"{tmp_path}/tree", "/dev/shm")

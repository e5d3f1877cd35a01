"""How much disk a tree takes, within bounds, even if its owner hides it: FS-20."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from paddock.fs import tree_bytes
from tests.fs.children import allow_descriptors, as_ordinary_user, bind, in_mount_namespace, mount, open_descriptors
from tests.fs.test_beneath import background
from tests.fs.trees import close_all, make_deep, make_odd

if TYPE_CHECKING:
    from pathlib import Path


def measure(path: object) -> tuple[int, bool]:
    return tree_bytes(str(path), entries_max=1_000_000, seconds_max=60)


def du(path: Path) -> int:
    done = subprocess.run(["du", "-sx", "--block-size=1", path], capture_output=True, check=True, timeout=30)
    return int(done.stdout.split()[0])


def test_it_agrees_with_du(tmp_path: Path) -> None:
    make_odd(f"{tmp_path}/tree")
    (tmp_path / "tree/file").write_bytes(b"x" * 1_000_000)
    before = open_descriptors()
    assert measure(tmp_path / "tree") == (du(tmp_path / "tree"), True)
    assert open_descriptors() == before


def test_a_hard_link_counts_once_and_a_hole_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    alone, _ = measure(tmp_path)
    for number in range(5):
        os.link(tmp_path / "file", tmp_path / f"link{number}")
    with (tmp_path / "hole").open("xb") as file:
        file.truncate(1 << 40)
    assert measure(tmp_path) == (alone, True)


def test_an_empty_file_counts_for_the_least_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(b"x" * 100_000)
    plain, _ = measure(tmp_path)
    for number in range(10):
        (tmp_path / f"{number}").touch()
    assert measure(tmp_path) == (plain, True)
    assert tree_bytes(str(tmp_path), 100, 60, least_bytes=4096) == (plain + 10 * 4096, True)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    empty, _ = measure(tmp_path / "tree")
    (tmp_path / "tree/link").symlink_to("/usr")
    total, complete = measure(tmp_path / "tree")
    assert complete
    assert total - empty <= 4096
    assert measure(tmp_path / "tree/link")[0] <= 4096


def test_a_file_and_a_missing_path_have_their_own_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    assert measure(tmp_path / "file") == (os.stat(tmp_path / "file").st_blocks * 512, True)
    assert measure(tmp_path / "missing") == (0, True)


def test_ten_thousand_levels_take_neither_descriptors_nor_recursion(ground: str) -> None:
    def act() -> None:
        make_deep(f"{ground}/tree", 10_000)
        allow_descriptors(4)
        total, complete = measure(f"{ground}/tree")
        assert complete
        assert total >= 10_000 * os.stat(f"{ground}/tree").st_blocks * 512

    as_ordinary_user(act)


def test_a_bound_cuts_it_short_and_is_told(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}").write_bytes(b"x" * 4096)
    whole, _ = measure(tmp_path)
    part, complete = tree_bytes(str(tmp_path), entries_max=50, seconds_max=60)
    assert not complete
    assert 0 < part < whole
    assert tree_bytes(str(tmp_path), entries_max=100, seconds_max=60) == (whole, True)
    assert tree_bytes(str(tmp_path), entries_max=1000, seconds_max=-1)[1] is False


def test_a_closed_directory_is_not_passed_off_as_empty(ground: str) -> None:
    def act() -> None:
        os.makedirs(f"{ground}/tree/a/hidden")
        os.makedirs(f"{ground}/tree/z")
        with open(f"{ground}/tree/z/file", "xb") as file:
            file.write(b"x" * 100_000)
        for mode in (0o000, 0o100, 0o400):
            close_all(f"{ground}/tree/a", mode)
            total, complete = measure(f"{ground}/tree")
            assert not complete
            assert total >= 100_000
            os.chmod(f"{ground}/tree/a", 0o700)
            os.chmod(f"{ground}/tree/a/hidden", 0o700)
        assert measure(f"{ground}/tree")[1]
        os.chmod(f"{ground}/tree", 0o000)
        assert measure(f"{ground}/tree")[1] is False
        os.chmod(f"{ground}/tree", 0o700)

    as_ordinary_user(act)


def test_other_file_systems_and_bind_mounts_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big/file").write_bytes(b"x" * 1_000_000)
    (tmp_path / "tree/tmpfs").mkdir(parents=True)
    (tmp_path / "tree/bound").mkdir()

    def act() -> None:
        mount("tmpfs", f"{tmp_path}/tree/tmpfs", "tmpfs", options="mode=0700")
        (tmp_path / "tree/tmpfs/file").write_bytes(b"x" * 1_000_000)
        bind(f"{tmp_path}/big", f"{tmp_path}/tree/bound")
        total, complete = measure(tmp_path / "tree")
        assert complete
        assert total < 100_000
        assert measure(tmp_path / "tree/tmpfs")[0] >= 1_000_000

    in_mount_namespace(act)


def test_a_tree_in_motion_is_measured_in_bounded_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"tree/{name}").mkdir(parents=True)
    make_deep(f"{tmp_path}/tree/one/moving", 200)

    def move(ready: int) -> None:
        os.write(ready, b".")
        while True:
            os.rename(tmp_path / "tree/one/moving", tmp_path / "tree/two/moving")
            os.rename(tmp_path / "tree/two/moving", tmp_path / "tree/one/moving")

    with background(move):
        for _ in range(20):
            began = time.monotonic()
            total, _ = tree_bytes(f"{tmp_path}/tree", entries_max=5_000, seconds_max=1)
            assert total > 0
            assert time.monotonic() - began < 5

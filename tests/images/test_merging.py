"""Merged layers are what they were together: above others, and on their own."""

from __future__ import annotations

import os
import random
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from paddock.images import marks, merging
from tests.support.namespaces import inside, private_mounts
from tests.support.trees import tree_of

if TYPE_CHECKING:
    from pathlib import Path

_MOUNT = "userxattr,index=off,xino=off"


def chain(tmp_path: Path, *names: str) -> list[Path]:
    trees = [tmp_path / name for name in names]
    for tree in trees:
        tree.mkdir()
    return trees


def hide(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR, 0)


def make_opaque(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    marks.make_opaque(fd)
    os.close(fd)


def merged(trees: list[Path], target: Path) -> Path:
    merging.merge(list(map(os.fspath, trees)), os.fspath(target))
    return target


def test_a_file_is_not_copied_and_keeps_its_names_and_holes(tmp_path: Path) -> None:
    one, two = chain(tmp_path, "one", "two")
    (one / "a").write_text("a")
    os.link(one / "a", one / "b")
    with open(one / "sparse", "wb") as file:
        file.truncate(1 << 40)
    (two / "a").write_text("new")
    found = merged([one, two], tmp_path / "merged")
    assert (found / "a").read_text() == "new"
    assert (found / "b").samefile(one / "b")
    assert (found / "sparse").stat().st_blocks == 0


def test_what_hides_something_of_below_still_does(tmp_path: Path) -> None:
    one, two, three = chain(tmp_path, "one", "two", "three")
    hide(one / "gone")
    (one / "d").mkdir()
    hide(two / "d")
    (three / "d").mkdir()
    (three / "d/new").write_text("new")
    (one / "o").mkdir()
    (one / "o/old").write_text("old")
    (two / "o").mkdir()
    make_opaque(two / "o")
    (three / "o").mkdir()
    (one / "back").write_text("x")
    hide(two / "back")
    found = merged([one, two, three], tmp_path / "merged")
    assert marks.is_whiteout(os.lstat(found / "gone"))
    assert marks.is_whiteout(os.lstat(found / "back"))
    assert os.listdir(found / "d") == ["new"]
    assert os.listdir(found / "o") == []
    for name in ("d", "o"):
        assert os.getxattr(found / name, "user.overlay.opaque") == b"y", name
    target = tmp_path / "whole"
    merging.copy(list(map(os.fspath, (one, two, three))), ["d", "o", "gone", "back", "none/deep"], os.fspath(target))
    assert sorted(os.listdir(target)) == ["d", "o"]
    assert os.listxattr(target / "o") == []


def test_directories_keep_their_facts(tmp_path: Path) -> None:
    one, two = chain(tmp_path, "one", "two")
    (one / "d").mkdir()
    (one / "d/file").write_text("x")
    (two / "d").mkdir()
    os.setxattr(two / "d", "user.mark", b"m")
    os.utime(two / "d", ns=(5, 7))
    (two / "d").chmod(0o711)
    two.chmod(0o750)
    found = merged([one, two], tmp_path / "merged")
    status = (found / "d").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (0o711, 7)
    assert os.getxattr(found / "d", "user.mark") == b"m"
    assert stat.S_IMODE(found.stat().st_mode) == 0o750
    copy = tmp_path / "copy"
    merging.copy([os.fspath(one), os.fspath(two)], ["d/file"], os.fspath(copy))
    assert stat.S_IMODE((copy / "d").stat().st_mode) == 0o711
    assert not (copy / "d/file").samefile(one / "d/file"), "a box may write to it"


def test_no_link_is_followed(tmp_path: Path) -> None:
    one, two = chain(tmp_path, "one", "two")
    (one / "d").mkdir()
    (one / "d/file").write_text("x")
    (two / "d").symlink_to("/etc")
    found = merged([one, two], tmp_path / "merged")
    assert os.readlink(found / "d") == "/etc"
    target = tmp_path / "whole"
    merging.copy([os.fspath(one), os.fspath(two)], ["d/passwd", "d"], os.fspath(target))
    assert os.listdir(target) == ["d"]
    assert (target / "d").is_symlink()


def test_a_path_without_end_is_refused(tmp_path: Path) -> None:
    (one,) = chain(tmp_path, "one")
    at = os.open(one, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    with pytest.raises(OSError, match="too long"):
        merged([one], tmp_path / "merged")


@pytest.mark.box
@pytest.mark.parametrize("seed", range(3))
def test_a_box_on_merged_layers_sees_what_it_saw_on_them(tmp_path: Path, seed: int) -> None:
    """By the kernel's own hand: an overlay makes the layers, and shows them before and after."""
    dice = random.Random(seed)
    base = tmp_path / "base"
    base.mkdir()
    _change(base, dice, 30)
    trees = [base]

    def act() -> None:
        private_mounts()
        for number in range(6):
            upper, view = tmp_path / f"upper{number}", tmp_path / f"view{number}"
            for place in (upper, view, tmp_path / f"work{number}"):
                place.mkdir()
            _mount(trees, view, f",upperdir={upper},workdir={tmp_path}/work{number}")
            _change(view, dice, 12)
            kernel.unmount(os.fspath(view))
            trees.append(upper)
        before, after = tmp_path / "before", tmp_path / "after"
        for place in (before, after):
            place.mkdir()
        _mount(trees, before)
        first, last = sorted(dice.sample(range(1, 7), 2))
        made = merged(trees[first : last + 1], tmp_path / "merged")
        _mount([*trees[:first], made, *trees[last + 1 :]], after)
        assert tree_of(before) == tree_of(after)
        merging.copy(list(map(os.fspath, trees)), [""], os.fspath(tmp_path / "whole"))
        assert tree_of(before) == tree_of(tmp_path / "whole")

    inside(act)


def _mount(trees: list[Path], view: Path, more: str = "") -> None:
    lower = ":".join(os.fspath(tree) for tree in reversed(trees))
    kernel.mount("overlay", os.fspath(view), "overlay", 0, f"{_MOUNT},lowerdir={lower}{more}")


def _change(top: Path, dice: random.Random, times: int) -> None:
    for _ in range(times):
        place = top.joinpath(*(f"d{dice.randrange(3)}" for _ in range(dice.randrange(3))))
        name = place / f"n{dice.randrange(5)}"
        try:
            match dice.randrange(7):
                case 0 | 1:
                    place.mkdir(parents=True, exist_ok=True)
                    name.write_text(str(dice.random()))
                case 2:
                    name.unlink()
                case 3:
                    name.symlink_to(f"n{dice.randrange(5)}")
                case 4:
                    name.mkdir()
                case 5:
                    name.rename(place / f"n{dice.randrange(5)}")
                case _:
                    _remove(place if place != top else name)
        except OSError:
            continue


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink()


def test_names_of_directories_do_not_fill_our_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = chain(tmp_path, "one")
    for number in range(20):
        (one / f"{number:08}").mkdir()
    merged([one], tmp_path / "whole")
    monkeypatch.setattr(merging, "_PATHS_BYTES", 1000)
    with pytest.raises(OSError, match="too long"):
        merged([one], tmp_path / "other")

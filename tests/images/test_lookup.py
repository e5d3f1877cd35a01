"""A file of a root that is a chain of layers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images import lookup, marks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def trees(tmp_path: Path) -> list[str]:
    for name in ("low", "high"):
        (tmp_path / name / "etc").mkdir(parents=True)
    (tmp_path / "low/etc/passwd").write_text("of the lower\n")
    return [str(tmp_path / name) for name in ("low", "high")]


def test_the_highest_layer_that_has_it_counts(trees: list[str]) -> None:
    assert lookup.read(trees, "etc/passwd", 99) == b"of the lower\n"
    with open(f"{trees[1]}/etc/passwd", "w", encoding="ascii") as file:
        file.write("of the higher\n")
    assert lookup.read(trees, "/etc/passwd", 99) == b"of the higher\n"
    assert lookup.read(trees, "etc/passwd", 2) == b"of"
    assert lookup.read(trees, "etc/missing", 99) == b""


def test_what_a_layer_removed_or_replaced_is_gone(trees: list[str]) -> None:
    fd = os.open(f"{trees[1]}/etc", os.O_RDONLY)
    marks.hide(fd, "passwd")
    assert lookup.read(trees, "etc/passwd", 99) == b""
    os.unlink("passwd", dir_fd=fd)
    assert lookup.read(trees, "etc/passwd", 99)
    marks.make_opaque(fd)
    os.close(fd)
    assert lookup.read(trees, "etc/passwd", 99) == b""


def test_no_link_and_no_other_thing_is_read(trees: list[str], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    os.symlink(tmp_path / "secret", f"{trees[1]}/etc/passwd")
    with pytest.raises(UserError, match="no file of its own"):
        lookup.read(trees, "etc/passwd", 99)
    os.unlink(f"{trees[1]}/etc/passwd")
    os.mkfifo(f"{trees[1]}/etc/passwd")
    with pytest.raises(UserError, match="no file of its own"):
        lookup.read(trees, "etc/passwd", 99)
    os.rename(f"{trees[1]}/etc", f"{trees[1]}/other")
    os.symlink(tmp_path, f"{trees[1]}/etc")
    with pytest.raises(UserError, match="no directory of its own"):
        lookup.read(trees, "etc/secret", 99)


def _led(trees: list[str], path: str) -> tuple[str, bool, list[str]]:
    found = lookup.place(trees, path)
    return found.path, found.is_directory, [name for name, _ in found.directories]


def test_a_path_goes_through_the_links_of_the_root_and_never_of_the_host(trees: list[str], tmp_path: Path) -> None:
    low, high = trees
    os.makedirs(f"{low}/usr/bin")
    os.symlink("usr/bin", f"{low}/bin")
    os.symlink(tmp_path, f"{high}/etc/out")  # on the host there is such a directory; in the root there is none
    os.symlink("../../../../etc", f"{high}/etc/up")
    assert os.path.isdir(f"{high}/etc/out")  # the oracle
    inside = str(tmp_path).lstrip("/")
    assert _led(trees, "/bin/tool") == ("usr/bin/tool", False, ["usr", "usr/bin"])
    assert _led(trees, "/bin/../lib/") == ("usr/lib", False, ["usr"])
    assert _led(trees, "/etc/out/x") == (f"{inside}/x", False, [])
    assert _led(trees, "etc/up/passwd") == ("etc/passwd", False, ["etc"])
    assert _led(trees, "/etc") == ("etc", True, ["etc"])
    assert _led(trees, "/") == ("", True, [])
    assert _led(trees, "/new/deep/../x") == ("new/x", False, [])
    assert _led(trees, "/../../..") == ("", True, [])
    with pytest.raises(UserError, match="no directory"):
        lookup.place(trees, "etc/passwd/x")


def test_links_that_go_round_are_refused_and_hidden_directories_are_gone(trees: list[str]) -> None:
    os.symlink("b", f"{trees[0]}/a")
    os.symlink("a", f"{trees[0]}/b")
    with pytest.raises(UserError, match="go round"):
        lookup.place(trees, "/a/x")
    os.makedirs(f"{trees[0]}/srv/deep")
    assert _led(trees, "/srv/deep")[1]
    os.mkdir(f"{trees[1]}/srv")
    fd = os.open(f"{trees[1]}/srv", os.O_RDONLY)
    marks.make_opaque(fd)
    os.close(fd)
    assert _led(trees, "/srv/deep") == ("srv/deep", False, ["srv"])
    root = os.open(trees[1], os.O_RDONLY)
    os.rmdir("srv", dir_fd=root)
    marks.hide(root, "srv")
    os.close(root)
    assert _led(trees, "/srv/deep") == ("srv/deep", False, [])

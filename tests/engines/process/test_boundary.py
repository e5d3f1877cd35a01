"""Some directories are shown to no box, whatever the PATH says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process.boundary import Boundary, is_below

if TYPE_CHECKING:
    from pathlib import Path

HOMES = ("/home/u", "/data/u")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/home", "/home/u", "/data", "/data/u", "/etc", "/etc/profiles", "/proc/self", "/run/user/1000/x"),
        *("/snap/bin", "/var/run/x", "/home/u/.ssh", "/home/u/.config/x/bin", "/data/u/.aws", "/home/other/.ssh/x"),
        *("/home/u/.local/share/keyrings", "/home/u/a/.kube/bin"),
    ],
)
def test_a_place_that_is_never_shown(path: str) -> None:
    assert not Boundary(HOMES).allows(path)


@pytest.mark.parametrize("path", ["/home/u/bin", "/home/u2", "/opt/x", "/srv/tools/bin", "/home/u/.nvm", "/etcetera"])
def test_a_place_that_may_be_shown(path: str) -> None:
    assert Boundary(HOMES).allows(path)


def test_the_table_opens_one_place_among_secrets_but_never_the_home() -> None:
    assert Boundary(HOMES).allows("/home/u/.config/yarn/global", known=True)
    assert not Boundary(HOMES).allows("/home/u", known=True)
    assert not Boundary(HOMES).allows("/run/x", known=True)


def test_a_home_below_a_hidden_directory_is_still_a_home() -> None:
    assert Boundary(("/srv/.config/u",)).allows("/srv/.config/u/bin")


@pytest.mark.parametrize(("path", "below"), [("/a", True), ("/a/b", True), ("/ab", False), ("/", False)])
def test_below_is_by_whole_names(path: str, below: bool) -> None:
    assert is_below(path, ["/a"]) is below


def test_a_directory_everyone_can_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir(mode=0o755)
    assert Boundary(()).trusts(str(tmp_path / "bin"))
    (tmp_path / "bin").chmod(0o757)
    assert not Boundary(()).trusts(str(tmp_path / "bin"))
    (tmp_path / "bin").chmod(0o1777)
    assert not Boundary(()).trusts(str(tmp_path / "bin"))


def test_a_directory_that_could_be_swapped_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "shared/bin").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    assert not Boundary(()).trusts(str(tmp_path / "shared/bin"))
    (tmp_path / "shared").chmod(0o1777)
    assert Boundary(()).trusts(str(tmp_path / "shared/bin"))


def test_a_missing_directory_is_not_trusted(tmp_path: Path) -> None:
    assert not Boundary(()).trusts(str(tmp_path / "missing"))


@pytest.mark.privileged
@pytest.mark.parametrize("which", ["tree", "parent", "link"])
def test_what_another_user_owns_is_not_trusted(tmp_path: Path, which: str) -> None:
    (tmp_path / "parent/tree").mkdir(parents=True)
    (tmp_path / "parent/link").symlink_to("tree")
    place = {"tree": "parent/tree", "parent": "parent", "link": "parent/link"}[which]
    shown = str(tmp_path / "parent" / ("link" if which == "link" else "tree"))
    assert Boundary(()).trusts(shown)
    os.chown(tmp_path / place, 61234, 61234, follow_symlinks=False)
    assert not Boundary(()).trusts(shown)


@pytest.mark.privileged
def test_a_group_of_others_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin").chmod(0o775)
    assert Boundary(()).trusts(str(tmp_path / "bin")), "root's own group"
    os.chown(tmp_path / "bin", 0, 61234)
    assert not Boundary(()).trusts(str(tmp_path / "bin"))
    (tmp_path / "bin").chmod(0o1775)
    assert Boundary(()).trusts(str(tmp_path / "bin")), "as the store of Nix is"

"""Where a COPY takes files from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images import marks
from paddock.images.sources import Directory, Layered

if TYPE_CHECKING:
    from pathlib import Path


def _layers(tmp_path: Path) -> list[str]:
    low, high = tmp_path / "low", tmp_path / "high"
    for name in ("usr/bin", "etc", "gone"):
        (low / name).mkdir(parents=True)
    (low / "usr/bin/cat").write_text("cat")
    (low / "etc/a").write_text("low")
    (low / "etc/b").write_text("b")
    (low / "gone/x").write_text("x")
    os.symlink("usr/bin", low / "bin")
    os.symlink("/etc/a", low / "usr/bin/absolute")
    (high / "etc").mkdir(parents=True)
    (high / "etc/a").write_text("high")
    fd = os.open(high, os.O_RDONLY)
    marks.hide(fd, "gone")
    os.close(fd)
    return [str(low), str(high)]


def test_layers_are_one_root_whose_links_lead_into_it(tmp_path: Path) -> None:
    files = Layered(_layers(tmp_path))
    assert sorted(files.names("")) == ["bin", "etc", "usr"]
    assert sorted(files.names("etc")) == ["a", "b"]
    assert files.settled("bin/cat") == "usr/bin/cat"
    assert files.settled("bin/absolute") == "etc/a"
    with open(files.open("etc/a")) as file:
        assert file.read() == "high"
    assert files.link("bin") == "usr/bin"
    assert (files.status("gone"), files.status("gone/x"), files.status("none")) == (None, None, None)
    status = files.status("")
    assert status is not None
    for act in (lambda: files.names("etc/a"), lambda: files.open("etc"), lambda: files.open("none")):
        with pytest.raises(OSError, match=r"etc|none"):
            act()
    os.symlink("round", tmp_path / "low/round")
    with pytest.raises(UserError, match="go round"):
        Layered(_reread(tmp_path)).settled("round")
    assert repr(files) == "<Layered 2 layers>"


def _reread(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "low"), str(tmp_path / "high")]


def test_a_directory_follows_no_link(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "in").mkdir(parents=True)
    (here / "in/file").write_text("x")
    os.symlink(tmp_path, here / "out")
    (tmp_path / "secret").write_text("s")
    root = os.open(here, os.O_RDONLY)
    try:
        files = Directory(root)
        assert sorted(files.names("")) == ["in", "out"]
        assert files.settled("out") == "out"
        assert files.link("out") == str(tmp_path)
        assert files.status("in/none") is None
        os.close(files.open("in/file"))
        os.close(files.open_directory("in"))
        for act in (lambda: files.names("out"), lambda: files.open("out/secret"), lambda: files.status("out/secret")):
            with pytest.raises(OSError):  # noqa: PT011  which one differs by kernel
                act()
        assert (tmp_path / "secret").read_text() == "s", "without the link it is there to read"
    finally:
        os.close(root)


def test_a_directory_of_too_many_files_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        assert sorted(Directory(root).names("")) == ["a", "b", "c"]
        monkeypatch.setattr("paddock.images.sources.BUILD_COPY_ENTRIES", 2)
        with pytest.raises(UserError, match="more than 2 files"):
            Directory(root).names("")
    finally:
        os.close(root)


def test_a_directory_of_layers_of_too_many_files_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Layered(_layers(tmp_path))
    monkeypatch.setattr("paddock.images.sources.BUILD_COPY_ENTRIES", 1)
    with pytest.raises(UserError, match="'etc' holds more than 1 files"):
        files.names("etc")

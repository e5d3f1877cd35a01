"""The submodules an index names, found in its bytes as git finds them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.strategies as some
import pytest

from paddock.workspace import index
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from pathlib import Path

PATHS = ["a", "libs/sub", "libs/sub2", "x/y/z", "with space", "caf\u00e9", "n" * 300, "long/" + "p" * 4200]


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_every_gitlink_is_found(tmp_path: Path, version: str, object_format: str) -> None:
    work = make_repository(tmp_path / "work", f"--object-format={object_format}")
    tip = git(work, "rev-parse", "HEAD").strip()
    for number in range(50):
        (work / f"file{number}").write_text(str(number))
    git(work, "add", "-A")
    for path in PATHS:
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{tip},{path}")
    if version == "3":
        git(work, "update-index", "--skip-worktree", "file3")
        git(work, "add", "-N", "--sparse", "file4")
    git(work, "update-index", f"--index-version={version}")
    data = (work / ".git/index").read_bytes()
    assert data[7] == int(version) or version == "3"
    assert sorted(index.gitlinks(data, object_format)) == sorted(PATHS)


def test_an_index_without_submodules_has_none(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    assert index.gitlinks((work / ".git/index").read_bytes()) == ()


def test_a_name_that_is_not_text_is_a_path_all_the_same(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    tip = git(work, "rev-parse", "HEAD").strip()
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{tip},caf\udcff")
    found = index.gitlinks((work / ".git/index").read_bytes())
    assert [os.fsencode(path) for path in found] == [b"caf\xff"]


@pytest.mark.parametrize(
    "data", [b"", b"DIRC", b"hello", b"DIRC\0\0\0\x09" + b"\0" * 100, b"DIRC\0\0\0\x04\xff\xff\xff\xff"]
)
def test_what_is_no_index_names_nothing(data: bytes) -> None:
    assert index.gitlinks(data) == ()


@hypothesis.given(some.binary(max_size=400), some.sampled_from([2, 3, 4]), some.sampled_from(["sha1", "sha256"]))
def test_no_bytes_lead_out_of_the_workspace(data: bytes, version: int, object_format: str) -> None:
    mode = (0o160000).to_bytes(4, "big")
    entry = b"\0" * 24 + mode + b"\0" * 32 + data
    head = b"DIRC" + version.to_bytes(4, "big") + b"\0\0\0\x02"
    for path in index.gitlinks(head + entry, object_format):
        assert not path.startswith("/")
        assert not {"", ".", "..", ".git"} & set(path.split("/"))


def test_a_name_is_found_among_the_files_and_directories(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    data = (work / ".git/index").read_bytes()
    assert [index.names(data, path) for path in ("file", "dir", "dir/inner")] == [True] * 3
    assert [index.names(data, path) for path in ("fil", "inner", "ir", "e", "new")] == [False] * 5

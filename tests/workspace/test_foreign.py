"""Files that a review cannot change are named; only root can make some, so a group will do for others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import foreign

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 61999


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "dir/deep").mkdir(parents=True)
    (place / ".git").mkdir()
    for name in ("own", "shared", "dir/deep/shared", ".git/shared"):
        (place / name).write_text("x", "utf-8")
    return place


def test_a_project_of_its_user_has_none(project: Path) -> None:
    assert foreign.near_the_top(os.fspath(project), 500) == ()


@pytest.mark.privileged
def test_files_of_another_group_or_user_are_found_and_git_is_left_out(project: Path) -> None:
    os.chown(project / "shared", -1, OTHER)
    os.chown(project / "dir/deep/shared", OTHER, -1)
    os.chown(project / ".git", OTHER, OTHER)
    os.chown(project / ".git/shared", OTHER, OTHER)
    assert foreign.near_the_top(os.fspath(project), 500) == ("dir/deep/shared", "shared")
    assert foreign.near_the_top(os.fspath(project), 2) == ("shared",), "the top comes first, and a bound is a bound"
    os.chown(project, OTHER, OTHER)
    assert foreign.ids(os.fspath(project)) == (OTHER, OTHER), "root's boxes go by who has the workspace"
    assert "own" in foreign.near_the_top(os.fspath(project), 500)


def test_what_is_said_names_some_and_counts_the_rest() -> None:
    assert foreign.words(["a"]).startswith("a belongs to another user or group: ")
    assert foreign.words(["a", "b", "c", "d", "e"]).startswith("a, b, c and 2 more belong to another")

"""Files of a work tree that its repository makes git obey are found; test_attacks.py shows what they are closed for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace import closed, obeyed, repository
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from pathlib import Path


def places(work: Path, home: str = "/nonexistent") -> dict[str, bool]:
    return dict(obeyed.places(repository.find(os.fspath(work)), home, os.fspath(work)))


def test_a_plain_repository_obeys_none_of_its_files(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    git(work, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(work, "config", "core.pager", "less -R")
    git(work, "config", "include.path", os.fspath(tmp_path / "elsewhere"))
    git(work, "config", "alias.file", "log")
    assert places(work) == {}


def test_settings_of_the_user_count_as_those_of_the_repository(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = .team/hooks\n[diff]\n\texternal = dir/inner\n")
    assert places(work, os.fspath(tmp_path)) == {".team/hooks": True, "dir/inner": False}
    (tmp_path / ".gitconfig").write_text("[core\n")
    assert places(work, os.fspath(tmp_path)) == {}, "what nobody can read nobody obeys"


def test_settings_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / "loop").write_text("[include]\n\tpath = loop\n\tpath = ./loop\n")
    git(work, "config", "--file", ".git/config", "include.path", "../dir/../loop")
    assert places(work) == {"loop": False}


def test_a_second_name_of_what_git_obeys_is_refused(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    found = repository.find(os.fspath(work))
    os.link(work / ".git/config", tmp_path / "backup")
    obeyed.check_links(found, os.fspath(work))
    os.link(work / ".git/config", work / "dir/config")
    with pytest.raises(UserError, match=r"dir/config is another name of .*/\.git/config"):
        obeyed.check_links(found, os.fspath(work))


@pytest.mark.parametrize(("value", "message"), [("../later", "a box could make"), ("..", "all files of the workspace")])
def test_what_cannot_be_closed_is_refused_by_name(tmp_path: Path, value: str, message: str) -> None:
    work = make_repository(tmp_path / "work")
    found = repository.find(os.fspath(work))
    closed.guards(os.fspath(tmp_path / "private"), found, ())
    git(work, "config", "include.path", value)
    with pytest.raises(UserError, match=message):
        closed.guards(os.fspath(tmp_path / "private"), found, ())

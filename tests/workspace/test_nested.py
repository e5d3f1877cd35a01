"""Repositories inside a workspace are found within bounds, told apart by whether a box made them, and moved away."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from paddock import fs, limits
from paddock.text import neutralise
from paddock.workspace import nested
from paddock.workspace.nested import Form
from tests.fs.trees import ODD_NAMES, make_deep
from tests.workspace.scenes import git, make_repository, with_submodule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box


def found(work: Path) -> dict[str, Form]:
    return {item.path: item.form for item in nested.find(os.fspath(work)).nested}


def test_every_form_is_found_at_every_depth(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    make_repository(work / "a/b/c")
    git(work, "clone", "-q", "--bare", ".", "d/bare")
    (work / "e").mkdir()
    (work / "e/.git").symlink_to("/")
    (work / "f").mkdir()
    os.mkfifo(work / "f/.git")
    (work / "g").mkdir()
    (work / "g/HEAD").touch()
    (work / "g/commondir").touch()
    assert found(work) == {
        "a/b/c/.git": Form.DIRECTORY,
        "d/bare": Form.BARE,
        "e/.git": Form.LINK,
        "f/.git": Form.LINK,
        "g": Form.BARE,
        "libs/sub/.git": Form.POINTER,
    }


def test_the_workspaces_own_is_not_one_of_them(tmp_path: Path) -> None:
    assert found(make_repository(tmp_path / "work")) == {}


def test_a_workspace_that_became_a_bare_repository_is_found(tmp_path: Path) -> None:
    for name in ("objects", "refs"):
        (tmp_path / name).mkdir()
    (tmp_path / "HEAD").touch()
    assert found(tmp_path) == {".": Form.BARE}


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".Git", ".git.", ".git ", "git~1", "GIT~1", ".g\u200cit", ".git::$DATA", ".ｇｉｔ"]
)
def test_other_spellings_count_as_git(tmp_path: Path, name: str) -> None:
    assert nested.is_dot_git(name)
    (tmp_path / "x" / name).mkdir(parents=True)
    assert found(tmp_path) == {f"x/{name}": Form.DIRECTORY}


@pytest.mark.parametrize("name", [".github", ".gitignore", "git", ".gitx", "agit~1", "git~10", ".git_", *ODD_NAMES])
def test_other_names_do_not(name: str) -> None:
    assert not nested.is_dot_git(name)


def test_odd_names_and_links_on_the_way_do_no_harm(tmp_path: Path) -> None:
    for name in ODD_NAMES:
        (tmp_path / name / ".git").mkdir(parents=True)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "out").symlink_to("/")
    assert set(found(tmp_path)) == {f"{name}/.git" for name in ODD_NAMES}


def test_bounds_hold_and_are_told(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"d{number}").mkdir()
    assert nested.find(os.fspath(tmp_path)).complete
    assert not nested.find(os.fspath(tmp_path), entries_max=20).complete
    assert not nested.find(os.fspath(tmp_path), seconds_max=-1).complete


def test_ten_thousand_levels_and_a_hundred_thousand_files_take_a_moment(tmp_path: Path) -> None:
    make_deep(f"{tmp_path}/deep", 2000)
    (tmp_path / "wide").mkdir()
    at = os.open(tmp_path / "wide", os.O_PATH)
    for number in range(20_000):
        os.close(os.open(f"f{number}", os.O_CREAT, 0o600, dir_fd=at))
    os.close(at)
    start = time.monotonic()
    result = nested.find(os.fspath(tmp_path))
    assert time.monotonic() - start < limits.NESTED_S + 5
    assert result.nested == ()
    fs.remove_tree(f"{tmp_path}/deep")  # pytest's own way gives up on it


def test_more_than_can_be_told_ends_the_search(tmp_path: Path) -> None:
    for number in range(limits.NESTED_MAX + 50):
        (tmp_path / f"d{number}/.git").mkdir(parents=True)
    result = nested.find(os.fspath(tmp_path))
    assert not result.complete
    assert len(result.nested) > limits.NESTED_MAX


def test_a_tree_in_motion_leads_nowhere_else(tmp_path: Path) -> None:
    """A directory is swapped for a link to another place all the time."""
    outside = tmp_path / "outside/x"
    (outside / ".git").mkdir(parents=True)
    work = tmp_path / "work"
    (work / "a").mkdir(parents=True)
    (work / "link").symlink_to(tmp_path / "outside")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(work / "a", work / "b")
            os.rename(work / "link", work / "a")
            os.rename(work / "a", work / "link")
            os.rename(work / "b", work / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            assert found(work) == {}
    finally:
        done.set()
        thread.join()


def test_what_a_box_made_or_changed_is_new_and_what_was_there_is_not(tmp_path: Path) -> None:
    make_repository(tmp_path / "old")
    make_repository(tmp_path / "touched")
    before = nested.find(os.fspath(tmp_path))
    since_ns = time.time_ns()
    while time.time_ns() < since_ns + 50_000_000:  # the clock of the file system ticks in steps
        (tmp_path / "tick").touch()
    make_repository(tmp_path / "fresh")
    with open(tmp_path / "touched/.git/config", "a", encoding="utf-8") as file:
        file.write("\n")
    after = nested.find(os.fspath(tmp_path))
    assert [item.path for item in nested.new(before, after, since_ns)] == ["fresh/.git", "touched/.git"]
    blind = nested.Found(nested=(), complete=False)  # when there was no time to look before, time tells
    assert [item.path for item in nested.new(blind, after, since_ns)] == ["fresh/.git", "touched/.git"]


def test_what_git_worktree_leaves_is_not_reported(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    before = nested.find(os.fspath(work))
    for name, text in (("wt", f"gitdir: {work}/.git/worktrees/wt\n"), ("evil", f"gitdir: {work}/.git/../x\n")):
        (work / name).mkdir()
        (work / name / ".git").write_text(text)
    after = nested.find(os.fspath(work))
    assert [item.path for item in nested.new(before, after, 0)] == ["evil/.git"]


def test_closing_pins_every_directory_on_the_way() -> None:
    assert [(mount.source, mount.target, mount.read_only) for mount in nested.closing("/w", "a/b/.git")] == [
        ("/w/a", "/w/a", False),
        ("/w/a/b", "/w/a/b", False),
        ("/w/a/b/.git", "/w/a/b/.git", True),
    ]


@pytest.mark.parametrize("place", ["new", "a b", "it's", "-rf", "line\nbreak", "esc\x1b[31m", "caf\udce9", "\u202egnp"])
def test_the_command_that_ends_a_repository_is_safe_to_print_and_ends_just_that(tmp_path: Path, place: str) -> None:
    work = tmp_path / "work"
    make_repository(work / place)
    make_repository(tmp_path / "bystander")
    (work / place / "beside").symlink_to(tmp_path / "bystander")
    item = nested.find(os.fspath(work)).nested[0]
    command = nested.remedy(os.fspath(work), item.path)
    assert command == neutralise(command, 4096), "nothing of it means something to a terminal"
    subprocess.run(["bash", "-c", command], check=True, cwd="/")
    assert found(work) == {}
    assert sorted(os.listdir(work / place)) == ["beside", "dir", "file"]
    assert (tmp_path / "bystander/.git/HEAD").exists()


def test_of_a_bare_repository_the_command_takes_what_makes_it_one(tmp_path: Path) -> None:
    work = tmp_path / "work"
    make_repository(tmp_path / "other")
    git(tmp_path / "other", "clone", "-q", "--bare", ".", os.fspath(work / "bare"))
    subprocess.run(["sh", "-c", nested.remedy(os.fspath(work), "bare")], check=True)
    assert found(work) == {}
    assert (work / "bare/objects").is_dir()
    assert nested.remedy("/w", ".") == "rm -rf -- /w/HEAD"


def test_directories_side_by_side_in_the_depth_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their paths are what costs: ten thousand at a depth of a megabyte would be ten gigabytes."""
    deep = tmp_path.joinpath(*["d" * 200] * 10)
    deep.mkdir(parents=True)
    for number in range(50):
        (deep / str(number)).mkdir()
    assert nested.find(os.fspath(tmp_path)).complete
    monkeypatch.setattr(limits, "NESTED_CHARS", 50_000)
    assert not nested.find(os.fspath(tmp_path)).complete

"""References read from files as git reads them, and names that cannot lead anywhere else."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.strategies as some
import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.workspace import refs
from paddock.workspace.repository import opened
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from pathlib import Path


def read(work: Path) -> refs.Refs:
    with opened(os.fspath(work / ".git")) as fd:
        return refs.read(fd, fd)


def as_git_lists(work: Path) -> dict[str, str]:
    lines = git(work, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    return {name: oid for oid, name in (line.split(" ") for line in lines)}


@pytest.mark.parametrize("packed", [False, True])
def test_references_are_read_as_git_lists_them(tmp_path: Path, packed: bool) -> None:
    work = make_repository(tmp_path / "work")
    git(work, "tag", "-a", "-m", "x", "v1")
    git(work, "update-ref", "refs/remotes/origin/main", "other")
    if packed:
        git(work, "pack-refs", "--all", "--prune")
        git(work, "branch", "-f", "other", "main")
    found = read(work)
    assert found.ids == as_git_lists(work)
    assert found.head == "refs/heads/main"
    assert found.resolve(found.head) == git(work, "rev-parse", "HEAD").strip()


def test_a_reference_to_a_reference_is_kept_as_one(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    git(work, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main")
    found = read(work)
    assert found.symbolic == {"refs/remotes/origin/HEAD": "refs/heads/main"}
    assert found.resolve("refs/remotes/origin/HEAD") == found.ids["refs/heads/main"]
    assert found.resolve("refs/heads/missing") == ""


def test_a_loop_of_references_ends(tmp_path: Path) -> None:
    loop = {"refs/heads/a": "refs/heads/b", "refs/heads/b": "refs/heads/a"}
    assert refs.Refs(head="refs/heads/a", ids={}, symbolic=loop).resolve("refs/heads/a") == ""


@pytest.mark.parametrize("kind", ["link", "fifo", "directory link", "text", "empty", "huge"])
def test_what_is_no_reference_is_left_out(tmp_path: Path, kind: str) -> None:
    work = make_repository(tmp_path / "work")
    place = work / ".git/refs/heads/evil"
    secret = tmp_path / "secret"
    secret.write_text("0" * 40 + "\n")
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory link":
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/x").write_text("0" * 40 + "\n")
        place.symlink_to(tmp_path / "outside")
    elif kind == "huge":
        with open(place, "wb") as file:
            file.truncate(limits.GIT_FILE_BYTES + 1)
    else:
        place.write_text({"text": "hello\n", "empty": ""}[kind])
    if kind == "huge":
        with pytest.raises(UserError, match="has over"):
            read(work)
        return
    assert set(read(work).ids) == {"refs/heads/main", "refs/heads/other"}


def test_too_many_references_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = make_repository(tmp_path / "work")
    monkeypatch.setattr(limits, "GIT_REFS_MAX", 3)
    with pytest.raises(UserError, match="over 3 references"):
        read(work)


@pytest.mark.parametrize("text", ["", "hello", "ref: ../../etc/passwd", "ref: HEAD", "ref: refs/heads/a b", "0" * 39])
def test_a_head_that_leads_nowhere_is_refused(tmp_path: Path, text: str) -> None:
    work = make_repository(tmp_path / "work")
    (work / ".git/HEAD").write_text(text)
    with pytest.raises(UserError, match="neither a branch nor a commit"):
        read(work)


def test_what_is_packed_git_reads_back(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    oid = git(work, "rev-parse", "main").strip()
    ids = {f"refs/heads/{name}": oid for name in ("main", "z", "a/b", "a-b", "a0", "é", "Z")}
    for name in ("main", "other"):
        (work / ".git/refs/heads" / name).unlink()
    (work / ".git/packed-refs").write_text(refs.packed_text(ids))
    assert as_git_lists(work) == ids


def git_accepts(name: str) -> bool:
    words = ["git", "check-ref-format", name]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads/main", "refs/heads/a/b", "refs/heads/é", "refs/heads/@", "refs/heads/a@b", "refs/heads/a{b",
        "refs/heads/..",
        "refs/heads/a..b", "refs/heads/.a", "refs/heads/a.", "refs/heads/a.lock", "refs/heads/a.lock/b",
        "refs/heads/a/", "refs/heads//a", "refs/heads/a b", "refs/heads/a~", "refs/heads/a^", "refs/heads/a:b",
        "refs/heads/a?", "refs/heads/a*", "refs/heads/a[", "refs/heads/a\\b", "refs/heads/a\x7f", "refs/heads/a\n",
        "refs/heads/@{x", "refs/heads/a@{", "refs/heads/",
    ],
)  # fmt: skip
def test_a_name_is_one_where_git_says_so(name: str) -> None:
    assert refs.is_name(name) is git_accepts(name)


@pytest.mark.parametrize("name", ["HEAD", "main", "refs/main", "refs/heads/-x", "/refs/heads/x"])
def test_we_are_stricter_where_it_could_be_taken_for_something_else(name: str) -> None:
    assert not refs.is_name(name)


@hypothesis.settings(max_examples=60)
@hypothesis.given(some.text(alphabet="ab./-@{~^:\\ *?[\x01é", max_size=12))
def test_no_name_passes_that_git_would_refuse(text: str) -> None:
    name = f"refs/heads/{text}"
    assert not refs.is_name(name) or git_accepts(name)


def test_a_directory_in_the_place_of_a_file_says_nothing(tmp_path: Path) -> None:
    """As a box may make one of its HEAD or packed-refs, which the daemon reads after every command."""
    (tmp_path / "file").mkdir()
    with opened(os.fspath(tmp_path)) as fd:
        assert refs.read_bytes(fd, "file", 10) == b""
        (tmp_path / "file").rmdir()
        (tmp_path / "file").write_text("x")
        assert refs.read_bytes(fd, "file", 10) == b"x"

"""References of ours on the host: what a box started from stays, nothing else of the repository changes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, UserError
from paddock.workspace import gitdir, hostrefs, repository
from tests.workspace.scenes import commit, git, make_repository, snapshot, with_submodule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box

BOX = "0123456789ab"


def twin(work: Path, private: Path) -> gitdir.Unit:
    return gitdir.make(os.fspath(private), repository.find(os.fspath(work)), who=gitdir.Identity()).units[0]


def kept(work: Path) -> list[str]:
    return git(work, "for-each-ref", "--format=%(objectname)", hostrefs.BASES).split()


def exists(work: Path, oid: str) -> bool:
    return not subprocess.run(["git", "-C", work, "cat-file", "-e", oid], capture_output=True, check=False).returncode


def rewrite(work: Path) -> str:
    """What a user does to be rid of history; returns the commit that went."""
    old = git(work, "rev-parse", "HEAD").strip()
    git(work, "commit", "-q", "--amend", "-m", "another")
    git(work, "reflog", "expire", "--expire=now", "--all")
    git(work, "gc", "-q", "--prune=now")
    return old


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("kind", ["plain", "worktree", "submodule", "sha256", "detached"])
def test_what_a_box_started_from_outlives_an_amend_and_a_prune(tmp_path: Path, kind: str, durable: bool) -> None:
    if kind == "submodule":
        work = with_submodule(tmp_path) / "libs/sub"
    else:
        work = make_repository(tmp_path / "work", *(["--object-format=sha256"] if kind == "sha256" else []))
    if kind == "worktree":
        git(work, "worktree", "add", "-q", "-b", "side", "../side")
        work = tmp_path / "side"
    if kind == "detached":
        git(work, "checkout", "-q", "--detach")
    commit(work, "own", "on no other branch\n")
    git(work, "gc", "-q")  # a clean slate: later ones change nothing by themselves
    before = snapshot(tmp_path)
    unit = twin(work, tmp_path.parent / f"{tmp_path.name}-private")
    hostrefs.keep(unit, BOX, durable=durable)
    changed = set(snapshot(tmp_path).items()) ^ set(before.items())
    assert {path for path, _ in changed if "refs/paddock" not in path} == set()
    assert sorted(kept(work)) == sorted(unit.base)
    hostrefs.release(unit, BOX)
    assert snapshot(tmp_path) == before, "and nothing of it is left"
    hostrefs.keep(unit, BOX)
    old = rewrite(work)
    assert exists(work, old)
    git(work, "fsck", "--strict")
    hostrefs.release(unit, BOX)  # git has packed them
    assert kept(work) == []
    git(work, "gc", "-q", "--prune=now")
    assert not exists(work, old), "the oracle: unkept it goes"


def test_several_boxes_keep_and_let_go_apart(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    units = {f"box{number}": twin(work, tmp_path / f"private{number}") for number in range(3)}
    for box, unit in units.items():
        hostrefs.keep(unit, box)
    hostrefs.release(units["box1"], "box1")
    hostrefs.release(units["box1"], "box1")
    assert sorted(os.listdir(work / ".git" / hostrefs.BASES)) == ["box0", "box2"]


def test_a_later_start_writes_what_is_missing_and_never_a_reference_to_nothing(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    unit = twin(work, tmp_path / "private")
    hostrefs.keep_on(unit, BOX)
    assert sorted(kept(work)) == sorted(unit.base)
    git(work, "pack-refs", "--all")
    hostrefs.keep_on(unit, BOX)
    assert not (work / ".git" / hostrefs.BASES / BOX).exists(), "packed ones are there too"
    hostrefs.release(unit, BOX)
    rewrite(work)
    with pytest.raises(PaddockError):
        hostrefs.keep_on(unit, BOX)
    git(work, "fsck", "--strict")


def test_a_lock_of_an_attempt_that_broke_off_does_not_stop_it(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    unit = twin(work, tmp_path / "private")
    place = work / ".git" / hostrefs.BASES / BOX
    place.mkdir(parents=True)
    (place / "0.lock").touch()
    hostrefs.keep(unit, BOX)
    assert sorted(os.listdir(place)) == [str(number) for number in range(len(unit.base))]


@pytest.mark.parametrize("link", ["refs/paddock", "refs/paddock/@base"])
def test_no_link_is_followed(tmp_path: Path, link: str) -> None:
    work = make_repository(tmp_path / "work")
    unit = twin(work, tmp_path / "private")
    (tmp_path / "outside").mkdir()
    place = work / ".git" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        hostrefs.keep(unit, BOX)
    assert os.listdir(tmp_path / "outside") == []


def test_an_empty_repository_has_nothing_to_keep(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init", "-q")
    unit = twin(tmp_path / "work", tmp_path / "private")
    before = snapshot(tmp_path / "work")
    hostrefs.keep(unit, BOX)
    hostrefs.release(unit, BOX)
    assert snapshot(tmp_path / "work") == before


def test_ours_are_open_to_whom_the_repository_is(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / ".git/refs").chmod(0o2775)
    hostrefs.keep(twin(work, tmp_path / "private"), BOX)
    place = work / ".git" / hostrefs.BASES / BOX
    assert (place.stat().st_mode & 0o7777, (place / "0").stat().st_mode & 0o777) == (0o2775, 0o664)


@pytest.mark.privileged
def test_ours_belong_to_the_owner_of_the_repository(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    subprocess.run(["chown", "-R", "61235:61235", work], check=True)
    unit = twin(work, tmp_path / "private")
    hostrefs.keep(unit, BOX)
    strange = [path for path in (work / ".git").rglob("*") if path.lstat().st_uid != 61235]
    assert strange == []


def test_only_references_of_ours_are_written(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    with pytest.raises(AssertionError):
        hostrefs.update(repository.find(os.fspath(work)), [("refs/heads/x", commit(work, "x", "x"), None)])
    with pytest.raises(UserError):
        hostrefs.release(twin(work, tmp_path / "private"), "../x")

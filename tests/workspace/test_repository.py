"""A workspace's repository is found without running anything, and without believing what an earlier box left."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace import repository
from paddock.workspace.repository import Kind
from tests.workspace.scenes import git, make_repository, with_submodule

if TYPE_CHECKING:
    from pathlib import Path


def find(place: Path) -> repository.Repository:
    return repository.find(os.fspath(place))


def test_a_plain_repository_is_found(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    status = work.stat()
    assert find(work) == repository.Repository(
        kind=Kind.PLAIN,
        workspace=f"{work}",
        git_dir=f"{work}/.git",
        common_dir=f"{work}/.git",
        objects=f"{work}/.git/objects",
        owner=(status.st_uid, status.st_gid),
    )
    assert repr(find(work)) == f"<Repository plain {work}/.git>"
    assert repository.read_refs(find(work)).head == "refs/heads/main"


def test_a_linked_worktree_is_found_by_its_pointer_and_the_pointer_back(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", "../side")
    found = find(tmp_path / "side")
    assert found.kind is Kind.WORKTREE
    assert (found.git_dir, found.common_dir) == (f"{main}/.git/worktrees/side", f"{main}/.git")
    assert repository.read_refs(found).head == "refs/heads/side"


def test_a_submodule_is_found(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    found = find(work / "libs/sub")
    assert found.kind is Kind.SEPARATE
    assert found.git_dir == f"{work}/.git/modules/libs/sub"


def test_a_repository_kept_elsewhere_needs_a_pointer_back(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", f"--separate-git-dir={tmp_path}/elsewhere")
    with pytest.raises(UserError, match="does not point back") as refused:
        find(work)
    command = refused.value.hint.partition("`")[2].rstrip("`")
    subprocess.run(command.split(), check=True)
    assert find(work).git_dir == f"{tmp_path}/elsewhere"


@pytest.mark.parametrize("inside", [False, True])
def test_a_directory_without_a_repository_has_none(tmp_path: Path, inside: bool) -> None:
    work = make_repository(tmp_path / "work") / "dir" if inside else tmp_path / "empty"
    work.mkdir(exist_ok=True)
    found = find(work)
    assert found.kind is Kind.NONE
    assert found.above == (f"{tmp_path}/work" if inside else "")


def test_an_empty_dot_git_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert find(tmp_path).kind is Kind.NONE


def test_objects_that_are_borrowed_are_named_to_the_last(tmp_path: Path) -> None:
    make_repository(tmp_path / "a")
    git(tmp_path, "clone", "-q", "--shared", "a", "b")
    git(tmp_path, "clone", "-q", "--shared", "b", "c")
    assert find(tmp_path / "c").borrowed == (f"{tmp_path}/b/.git/objects", f"{tmp_path}/a/.git/objects")


def test_alternates_that_go_round_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        make_repository(tmp_path / name)
        (tmp_path / name / ".git/objects/info/alternates").write_text(
            f"../../../{other}/.git/objects\n\n#x\n/missing\n"
        )
    assert find(tmp_path / "a").borrowed == (f"{tmp_path}/b/.git/objects",)


def test_endless_alternates_are_refused(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    for number in range(40):
        (tmp_path / f"o{number}").mkdir()
    lines = "".join(f"{tmp_path}/o{number}\n" for number in range(40))
    (work / ".git/objects/info/alternates").write_text(lines)
    with pytest.raises(UserError, match="borrows from over"):
        find(work)


# What an earlier box, or another tool's, may have left: a scene, and why it is not followed.
def _victim(place: Path) -> Path:
    return make_repository(place / "victim")


def _pointer(place: Path, work: Path) -> None:
    (work / ".git").write_text(f"gitdir: {_victim(place)}/.git\n")


def _worktree_of_another(place: Path, work: Path) -> None:
    git(_victim(place), "worktree", "add", "-q", "../theirs")
    (work / ".git").write_text(f"gitdir: {place}/victim/.git/worktrees/theirs\n")


def _own_worktree_of_another(place: Path, work: Path) -> None:
    """A gitdir that points back, and whose common directory is someone else's."""
    evil = place / "evil/worktrees/x"
    evil.mkdir(parents=True)
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "commondir").write_text(f"{_victim(place)}/.git\n")
    (evil / "gitdir").write_text(f"{work}/.git\n")
    (work / ".git").write_text(f"gitdir: {evil}\n")


def _inside(place: Path, work: Path) -> None:
    git(work, "init", "-q", "x")
    (work / "x/.git").rename(work / "evil")
    (work / ".git").write_text("gitdir: evil\n")


def _link(place: Path, work: Path) -> None:
    (work / ".git").symlink_to(_victim(place) / ".git")


def _fifo(place: Path, work: Path) -> None:
    os.mkfifo(work / ".git")


def _repository(work: Path) -> Path:
    return make_repository(work) / ".git"


def _commondir(place: Path, work: Path) -> None:
    (_repository(work) / "commondir").write_text(f"{_victim(place)}/.git\n")


def _objects(place: Path, work: Path) -> None:
    objects = _repository(work) / "objects"
    objects.rename(place / "moved")
    objects.symlink_to(_victim(place) / ".git/objects")


def _refs(place: Path, work: Path) -> None:
    (_repository(work) / "refs").rename(place / "moved")
    (work / ".git/refs").symlink_to(place / "moved")


def _setting(text: str) -> Callable[[Path, Path], None]:
    def act(place: Path, work: Path) -> None:
        with open(_repository(work) / "config", "a", encoding="utf-8") as file:
            file.write(text)

    return act


if TYPE_CHECKING:
    from collections.abc import Callable

SCENES: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "pointer to another project": (_pointer, "does not point back"),
    "pointer to another's worktree": (_worktree_of_another, "does not point back"),
    "worktree of another's repository": (_own_worktree_of_another, "does not point back"),
    "repository inside": (_inside, "lies inside it"),
    "link": (_link, "is a symbolic link"),
    "fifo": (_fifo, "neither a directory nor a file"),
    "pointer to nothing": (lambda _, work: _write(work, "gitdir: /nowhere\n"), "where there is no repository"),
    "file of another kind": (lambda _, work: _write(work, "hello\n"), "names no repository"),
    "commondir": (_commondir, "makes git obey another directory"),
    "objects elsewhere": (_objects, "objects is not a directory"),
    "references elsewhere": (_refs, "refs is not a directory"),
    "unknown extension": (_setting("[extensions]\n\tnewthing = x\n"), "extension newthing"),
    "reftable": (_setting("[extensions]\n\trefStorage = reftable\n"), "keeps its references as reftable"),
    "future format": (_setting("[core]\n\trepositoryformatversion = 7\n"), "format 7"),
    "unknown objects": (_setting("[extensions]\n\tobjectFormat = sha3\n"), "objects of an unknown format"),
    "other work tree": (_setting("[core]\n\tworktree = /\n"), "the work tree of"),
    "bare": (_setting("[core]\n\tbare = true\n"), "is a bare repository"),
    "broken settings": (_setting("[core\n"), "cannot read line"),
}


def _write(work: Path, text: str) -> None:
    (work / ".git").write_text(text)


@pytest.mark.parametrize("name", SCENES)
def test_what_cannot_be_trusted_or_understood_is_refused_with_a_reason_and_a_next_step(
    tmp_path: Path, name: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    scene, said = SCENES[name]
    scene(tmp_path, work)
    with pytest.raises(UserError, match=said) as refused:
        find(work)
    assert refused.value.hint
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("place", ["work/.git", "bare"])
def test_gits_own_directory_is_no_workspace(tmp_path: Path, place: str) -> None:
    git(make_repository(tmp_path / "work"), "clone", "-q", "--bare", ".", "../bare")
    with pytest.raises(UserError, match="git's own directory"):
        find(tmp_path / place)


def test_looking_runs_no_program(tmp_path: Path) -> None:
    work = with_submodule(tmp_path)
    code = "import sys; from paddock.workspace import repository; repository.find(sys.argv[1])"
    words = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=execve",
        "-o",
        f"{tmp_path}/trace",
        sys.executable,
        "-c",
        code,
        str(work),
    ]
    try:
        subprocess.run(words, env={"PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("there is no strace here")
    assert (tmp_path / "trace").read_text().count("execve(") == 1

"""Workspaces of every form: worktrees, submodules, repositories of others, none at all, and names of any bytes."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import View, WorkspaceMode
from paddock.workspace import hostrefs
from tests.boxes.test_homecoming import home_refs
from tests.support import contract
from tests.support.installation import IS_ROOT
from tests.workspace.scenes import commit, git, make_repository, snapshot, with_submodule

if TYPE_CHECKING:
    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

MODES = tuple(WorkspaceMode)
SHARED = (WorkspaceMode.LIVE, WorkspaceMode.REVIEW)
WORK = """set -e
git status --porcelain; git config user.name A; git config user.email a@example.com
echo more >> file; git add file; git commit -qm 'in the box'; git log --format=%s | head -1
"""
STRANGER = 61235


def on(paddock: Paddock, place: Path, mode: WorkspaceMode) -> Box:
    branch = "fix/x" if mode is WorkspaceMode.CLONE else ""
    return paddock.create(workspace=str(place), view=View(mode=mode, branch=branch))


def said(box: Box, script: str) -> str:
    done = box.exec(["sh", "-c", script])
    assert done.exit_code == 0, (done.stdout, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape")


def arrived(place: Path, mode: WorkspaceMode, box: Box) -> bool:
    """The commit came home, under the branch that it has in the box, and the host's files are as the mode wants."""
    found = {ref: subject for ref, subject in home_refs(place).items() if ref.startswith(f"refs/paddock/{box.name}/")}
    wanted = "one\nmore\n" if mode is WorkspaceMode.LIVE else "one\n"
    return list(found.values()) == ["in the box"] and (place / "file").read_text() == wanted


# -- repositories ------------------------------------------------------------------------------------------------------


def plain(top: Path) -> Path:
    return make_repository(top / "work")


def worktree(top: Path) -> Path:
    git(make_repository(top / "main"), "worktree", "add", "-q", "-b", "side", "../side")
    return top / "side"


def submodule(top: Path) -> Path:
    return with_submodule(top) / "libs/sub"


def superproject(top: Path) -> Path:
    return with_submodule(top)


def detached(top: Path) -> Path:
    git(make_repository(top / "work"), "checkout", "-q", "--detach")
    return top / "work"


def sha256(top: Path) -> Path:
    return make_repository(top / "work", "--object-format=sha256")


def shallow(top: Path) -> Path:
    git(make_repository(top / "origin"), "clone", "-q", "--depth=1", f"file://{top}/origin", "../work")
    return top / "work"


FORMS = (plain, worktree, submodule, superproject, detached, sha256, shallow)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_git_works_in_a_workspace_of_every_form_and_commits_come_home(
    paddock: Paddock, installation: Installation, form: object
) -> None:
    assert callable(form)
    place = form(installation.workspace)
    for mode in MODES:
        box = on(paddock, place, mode)
        assert said(box, WORK) == "in the box\n", (mode, "clean at first, and then with the commit")
        box.stop()
        assert arrived(place, mode, box), mode
        git(place, "checkout", "-q", "--", "file")
        git(place, "fsck", "--strict")
        box.remove(force=True)
        assert git(place, "for-each-ref", hostrefs.BASES) == ""


def test_a_submodule_of_the_workspace_has_a_history_of_its_own(paddock: Paddock, installation: Installation) -> None:
    place = superproject(installation.workspace)
    for mode in SHARED:
        box = on(paddock, place, mode)
        assert said(box, f"cd libs/sub; {WORK}") == "in the box\n"
        box.stop()
        assert list(home_refs(place / "libs/sub")) == [f"refs/paddock/{box.name}/main"]
        git(place / "libs/sub", "checkout", "-q", "--", "file")
        box.remove(force=True)
        git(place / "libs/sub", "update-ref", "-d", f"refs/paddock/{box.name}/main")


@pytest.mark.parametrize("mode", SHARED)
def test_a_directory_without_a_repository_works(
    paddock: Paddock, installation: Installation, mode: WorkspaceMode
) -> None:
    place = installation.workspace / "plain"
    place.mkdir()
    (place / "file").write_text("one\n")
    box = on(paddock, place, mode)
    assert said(box, "cat file; echo new > new; git init -q . && git add -A && git status --short") == (
        "one\nA  file\nA  new\n"
    )
    box.stop()
    assert (place / "new").exists() is (mode is WorkspaceMode.LIVE)
    assert not (place / ".git").exists()
    assert box.remove(force=True).lost == ()


# -- of others ---------------------------------------------------------------------------------------------------------


@pytest.mark.privileged
@pytest.mark.parametrize("mode", MODES)
def test_root_works_in_a_repository_of_another_user_and_leaves_everything_theirs(
    paddock: Paddock, installation: Installation, mode: WorkspaceMode
) -> None:
    place = plain(installation.workspace)
    subprocess.run(["chown", "-R", f"{STRANGER}:{STRANGER}", place], check=True)
    box = on(paddock, place, mode)
    assert said(box, f"{WORK}touch made") == "in the box\n"
    box.stop()
    strange = [path for path in [place, *place.rglob("*")] if path.lstat().st_uid != STRANGER]
    assert strange == []
    box.remove(force=True)
    assert [path for path in place.rglob("*") if path.lstat().st_uid != STRANGER] == []


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
@pytest.mark.parametrize("mode", [WorkspaceMode.REVIEW, WorkspaceMode.CLONE])
def test_a_repository_that_may_only_be_read_works_and_its_commits_stay_in_the_box(
    paddock: Paddock, installation: Installation, mode: WorkspaceMode
) -> None:
    """As a repository of root's is to an ordinary user."""
    place = plain(installation.workspace)
    closed = [path for path in [place, *place.rglob("*")] if not path.is_symlink()]
    modes = {path: path.stat().st_mode for path in closed}
    for path in closed:
        path.chmod(modes[path] & 0o555)
    try:
        box = on(paddock, place, mode)
        script = WORK if mode is WorkspaceMode.CLONE else f"chmod u+w . file; {WORK}"
        assert said(box, script).endswith("in the box\n")
        assert "did not come home" in " ".join(box.stop().problems)
        with pytest.raises(UserError):
            box.remove()
        assert box.remove(force=True).lost
    finally:
        for path, mode_before in modes.items():
            path.chmod(mode_before)


# -- names -------------------------------------------------------------------------------------------------------------

ODD = (b"caf\xe9", "Größe".encode(), b"UPPER", b"upper", b"new\nline", b"esc\x1b[31m", b" lead", b"-dash", b"a\\b")


@pytest.mark.parametrize("mode", MODES)
def test_names_of_any_bytes_and_of_either_case_survive(
    paddock: Paddock, installation: Installation, mode: WorkspaceMode
) -> None:
    place = plain(installation.workspace)
    top = os.fsencode(place)
    for name in ODD:
        (Path(os.fsdecode(top + b"/" + name))).write_bytes(name)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "odd names")
    box = on(paddock, place, mode)
    assert said(box, "git status --porcelain") == ""
    assert sorted(said(box, "find . -path ./.git -prune -o -type f -print0").split("\0")[:-1]) == sorted(
        ["./dir/inner", "./file", *(f"./{os.fsdecode(name)}" for name in ODD)]
    )
    script = 'for name in *; do test -f "$name" && printf x >> "./$name"; done; git add -A'
    said(box, f"git config user.name A; git config user.email a@example.com; {script}; git commit -qm 'in the box'")
    box.stop()
    ref = next(iter(home_refs(place)))
    for name in ODD:
        assert git(place, "show", f"{ref}:{os.fsdecode(name)}") == os.fsdecode(name) + "x"
    if mode is WorkspaceMode.REVIEW:
        done = box.apply(accept=lambda _plan, _danger: True)
        assert done.is_whole, done.plan.withheld
    if mode is not WorkspaceMode.CLONE:
        assert [Path(os.fsdecode(top + b"/" + name)).read_bytes() for name in ODD] == [name + b"x" for name in ODD]


# -- clones ------------------------------------------------------------------------------------------------------------


def test_a_clone_has_gits_modes_and_borrows_the_hosts_objects(paddock: Paddock, installation: Installation) -> None:
    place = plain(installation.workspace)
    (place / "program").write_text("#!/bin/sh\n")
    (place / "program").chmod(0o755)
    (place / "link").symlink_to("file")
    (place / "large").write_bytes(os.urandom(8 << 20))
    git(place, "add", "-A")
    git(place, "commit", "-qm", "more")
    box = on(paddock, place, WorkspaceMode.CLONE)
    assert said(box, "stat -c '%a %F' . dir file program link; git status --porcelain; git count-objects") == (
        f"{place.stat().st_mode & 0o777:o} directory\n755 directory\n644 regular file\n755 regular file\n"
        "777 symbolic link\n0 objects, 0 kilobytes\n"
    )
    private = installation.state / "boxes" / box.info.id / "git/gitdir/objects"
    assert sum(path.stat().st_size for path in private.rglob("*") if path.is_file()) < 4096, "nothing is copied"
    git(place, "repack", "-adq")
    git(place, "gc", "-q", "--prune=now")
    assert said(box, "git fsck --full > /dev/null && git log --format=%s | head -1") == "more\n"


def test_several_boxes_clone_at_once(paddock: Paddock, installation: Installation) -> None:
    place = plain(installation.workspace)
    before = snapshot(place)
    boxes = [
        paddock.create(f"c{number}", workspace=str(place), view=View(mode=WorkspaceMode.CLONE)) for number in range(6)
    ]

    def own(box: Box) -> str:
        return WORK.replace("more", box.name)  # the same commit twice would be one

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda box: installation.cli("exec", box.name, "sh", "-c", own(box)).stdout, boxes))
    assert done == [b"in the box\n"] * 6
    for box in boxes:
        box.stop()
    assert sorted(home_refs(place)) == [f"refs/paddock/c{number}/paddock/c{number}" for number in range(6)]
    files = {path: what for path, what in snapshot(place).items() if not path.startswith(".git")}
    assert files == {path: what for path, what in before.items() if not path.startswith(".git")}


def test_an_empty_repository_can_be_cloned(paddock: Paddock, installation: Installation) -> None:
    place = installation.workspace / "empty"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    box = on(paddock, place, WorkspaceMode.CLONE)
    assert said(box, f"touch file; {WORK}").endswith("in the box\n")
    box.stop()
    assert list(home_refs(place)) == [f"refs/paddock/{box.name}/fix/x"]


@pytest.mark.parametrize(
    "branch",
    [
        "-x",
        "--orphan",
        "a..b",
        "a b",
        "$(touch x)",
        "a.lock",
        "HEAD",
        "a\x1b",
        "r/../x",
        "@{-1}",
        "main",
        "x" * 2000,
    ],
)
def test_a_branch_that_cannot_be_is_refused_before_a_box_exists(installation: Installation, branch: str) -> None:
    place = plain(installation.workspace)
    before = snapshot(place)
    done = installation.cli("run", "--clone", f"--branch={branch}", "--", "true", cwd=place)
    assert (done.returncode, b"branch" in done.stderr, b"\x1b" in done.stderr) == (2, True, False)
    assert (installation.cli("ls", "-q").stdout, snapshot(place)) == (b"", before)


def test_a_directory_without_a_repository_is_refused_as_a_clone_before_a_box_exists(installation: Installation) -> None:
    done = installation.cli("run", "--clone", "--", "true")
    assert (done.returncode, b"no repository" in done.stderr, b"hint: " in done.stderr) == (2, True, True)
    assert installation.cli("ls", "-q").stdout == b""


def test_a_clone_that_broke_off_is_made_anew(paddock: Paddock, installation: Installation) -> None:
    place = plain(installation.workspace)
    box = on(paddock, place, WorkspaceMode.CLONE)
    loose = place / ".git/objects" / (oid := git(place, "rev-parse", "HEAD:file").strip())[:2] / oid[2:]
    loose.rename(place / "aside")
    with pytest.raises(Exception, match="checkout"):
        box.exec(["true"])
    (place / "aside").rename(loose)
    assert said(box, "cat file dir/inner; git status --porcelain; git branch --show-current") == "one\ntwo\nfix/x\n"
    assert commit(place, "later", "later\n")

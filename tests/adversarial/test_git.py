"""The host's git obeys what lies in `.git`: a box has a `.git` of its own there, and cannot get at the host's."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import Mount, View, WorkspaceMode
from tests.support import contract
from tests.support.attack import inside, outside

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def git(repository: Path, *words: str) -> str:
    """Host git, as its owner has it: only identity and home are fixed."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(repository.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "someone"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "someone@example.com"),
    }
    done = subprocess.run(["git", *words], cwd=repository, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def make_repository(place: Path) -> Path:
    place.mkdir(exist_ok=True, parents=True)
    git(place, "init", "-q", "-b", "main")
    (place / "file").write_text("one\n")
    git(place, "add", "file")
    git(place, "commit", "-q", "-m", "one")
    return place


@pytest.fixture
def repository(installation: Installation) -> Path:
    return make_repository(installation.workspace)


PLANT = """
import shutil
where, marker = ARGS
os.chdir(where)
payload = f"{where}/payload"
with open(payload, "w") as file:
    file.write(f"#!/bin/sh\\ntouch {marker}\\n")
os.chmod(payload, 0o755)
config = f"[core]\\n\\tfsmonitor = {payload}\\n\\tpager = {payload}\\n\\teditor = {payload}\\n"
def write(path, text=config):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.write(text)
def hook(name):
    shutil.copy(payload, f".git/hooks/{name}")
def commondir():
    write("evil/config", "[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n" + config)
    for name in ("objects", "refs"):
        os.makedirs(f"evil/{name}", exist_ok=True)
    write(".git/commondir", f"{where}/evil\\n")
def swap():
    shutil.copytree(".git", "copy", symlinks=True, dirs_exist_ok=True)
    write("copy/config")
    os.rename(".git", "moved")
    os.rename("copy", ".git")
def exchange():
    import ctypes
    if libc.renameat2(-100, b"copy", -100, b".git", 2):
        raise OSError(ctypes.get_errno(), "exchange")
say({
    "config": attempt(write, ".git/config"),
    "config.worktree": attempt(write, ".git/config.worktree"),
    "hook": attempt(hook, "pre-commit"),
    "post-index-change": attempt(hook, "post-index-change"),
    "hooks swapped": attempt(os.rename, ".git/hooks", ".git/hooks.old"),
    "attributes": attempt(write, ".git/info/attributes", "* filter=evil\\n"),
    "modules": attempt(write, ".git/modules/x/config"),
    "head": attempt(write, ".git/HEAD", "x"),
    "index": attempt(write, ".git/index", "x"),
    "object": attempt(write, ".git/objects/info/alternates", "/tmp\\n"),
    "mode": attempt(os.chmod, ".git/config", 0o777),
    "removed": attempt(os.unlink, ".git/config"),
    "commondir": attempt(commondir),
    "swapped": attempt(swap),
    "exchanged": attempt(exchange),
    "emptied": attempt(os.rmdir, ".git"),
})
"""


def contents(place: Path) -> dict[str, tuple[int, bytes]]:
    # refs/paddock is ours: what a box started from is kept there as long as it exists.
    files = [path for path in place.rglob("*") if not path.is_dir() and "/refs/paddock/" not in str(path)]
    return {str(path): (path.lstat().st_mode, path.read_bytes()) for path in files}


def triggers(repository: Path, marker: Path) -> bool:
    """Does everyday host git run what was planted?"""
    for words in (["status"], ["diff"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "more"], ["log", "-1"]):
        subprocess.run(
            ["git", *words], cwd=repository, capture_output=True, check=False, env={**os.environ, "GIT_PAGER": "cat"}
        )
    return marker.exists()


def test_nothing_planted_in_a_repository_runs_on_the_host(box: Box, repository: Path, tmp_path: Path) -> None:
    marker, twin_marker = tmp_path / "ran", tmp_path / "twin-ran"
    box.stop()  # the repository came after its start
    before = contents(repository / ".git")
    done = inside(box, PLANT, str(repository), str(marker))
    assert {done[name] for name in ("swapped", "exchanged", "emptied")} <= {"EBUSY", "EXDEV", "ENOTEMPTY"}, done
    assert contents(repository / ".git") == before
    assert git(repository, "status", "--porcelain")
    assert not triggers(repository, marker)
    twin = make_repository(tmp_path / "twin")  # the oracle: unprotected, the same planting runs
    outside(PLANT, str(twin), str(twin_marker))
    assert triggers(twin, twin_marker)


def test_git_of_box_and_host_work_side_by_side(box: Box, repository: Path) -> None:
    box.stop()
    quiet = "GIT_OPTIONAL_LOCKS=0 git -c safe.directory='*'"
    assert box.exec(["sh", "-c", f"{quiet} log --oneline | wc -l"]).stdout.strip() == b"1"
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert box.exec(["sh", "-c", f"{quiet} log --oneline | wc -l"]).stdout.strip() == b"1", "its branches are its own"
    git(repository, "gc", "-q")
    assert box.exec(["sh", "-c", f"{quiet} status --short && {quiet} diff"]).ok
    assert box.exec(["sh", "-c", "echo two > file"]).ok
    assert git(repository, "diff", "--stat").splitlines()[-1].startswith(" 1 file changed")
    git(repository, "commit", "-q", "-a", "-m", "three")


@pytest.mark.parametrize("ancestor", [".git", "."])
def test_the_way_to_the_repository_cannot_be_renamed(box: Box, repository: Path, ancestor: str) -> None:
    box.stop()
    (repository / "plain").mkdir()
    program = "os.chdir(ARGS[0]); say([attempt(os.rename, ARGS[1], '../moved'), attempt(os.rename, 'plain', 'moved')])"
    refused, allowed = inside(box, program, str(repository), ancestor)
    assert refused in {"EBUSY", "EXDEV", "EROFS", "EACCES"}
    assert allowed == "ok"
    assert (repository / ".git" / "HEAD").exists()


def test_the_repository_is_closed_under_every_name_it_is_shown_by(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    repository = make_repository(tmp_path / "repository")
    mounts = [Mount(source=str(repository), target="/mnt/alias"), Mount(source=str(repository), target="/srv/a/b/c")]
    box = paddock.create("aliases", workspace=str(repository), mounts=mounts)
    program = (
        "say([attempt(open, f'{place}/.git/config', 'a') for place in ARGS] + [attempt(open, f'{ARGS[1]}/x', 'w')])"
    )
    before = contents(repository / ".git")
    assert inside(box, program, str(repository), "/mnt/alias", "/srv/a/b/c") == ["ok", "EROFS", "EROFS", "ok"]
    assert contents(repository / ".git") == before


def test_a_repository_inside_another_mount_is_closed_there_too(paddock: Paddock, tmp_path: Path) -> None:
    """The workspace is a repository, and its parent directory is shown beside it."""
    repository = make_repository(tmp_path / "projects" / "repository")
    mounts = [Mount(source=str(repository.parent), target="/mnt/projects")]
    box = paddock.create("outer", workspace=str(repository), mounts=mounts)
    program = (
        "say([attempt(open, f'{place}/.git/config', 'a') for place in ARGS] + [attempt(open, f'{ARGS[1]}/x', 'w')])"
    )
    before = contents(repository / ".git")
    assert inside(box, program, str(repository), "/mnt/projects/repository") == ["ok", "EROFS", "ok"]
    assert contents(repository / ".git") == before


def test_what_is_closed_or_hidden_in_a_workspace_is_so_under_every_name(paddock: Paddock, tmp_path: Path) -> None:
    """The whole of it, a part of it and what is around it, each shown a second time."""
    work = make_repository(tmp_path / "projects" / "work")
    make_repository(work / "part" / "nested")
    (work / "part" / "secret").write_text("hidden")
    (work / ".envrc").touch()
    around = {"/mnt/whole": work, "/mnt/part": work / "part", "/mnt/around": work.parent}
    mounts = [Mount(source=str(source), target=target) for target, source in around.items()]
    parts = ["/mnt/whole/part", "/mnt/part", "/mnt/around/work/part"]
    closed = [f"{part}/nested/.git/config" for part in parts]
    closed += ["/mnt/whole/.git/config", "/mnt/around/work/.git/config", "/mnt/whole/.envrc", "/mnt/around/work/.envrc"]
    program = """
def read(place):
    with open(place) as file:
        return file.read()
parts, closed = ARGS
moves = [attempt(os.rename, f"{part}/nested", f"{part}/moved") for part in parts]
say([[read(f"{part}/secret") for part in parts], [attempt(open, place, "a") for place in closed], moves])
"""
    box = paddock.create("names", workspace=str(work), mounts=mounts, view=View(masks=("part/secret",)))
    assert inside(box, program, parts, closed) == [[""] * 3, ["EROFS"] * len(closed), ["EBUSY"] * 3]
    (tmp_path / "other").mkdir()
    plain = paddock.create("plain", workspace=str(tmp_path / "other"), mounts=mounts[1:2])
    oracle = inside(plain, program, parts[1:2], ["/mnt/part/moved/.git/config"])
    assert oracle == [["hidden"], ["ok"], ["ok"]], "beside another workspace it is a mount as any"


@pytest.mark.parametrize("mode", [WorkspaceMode.REVIEW, WorkspaceMode.CLONE])
def test_no_second_name_leads_around_a_review_or_a_clone(paddock: Paddock, tmp_path: Path, mode: WorkspaceMode) -> None:
    work = make_repository(tmp_path / "projects" / "work")
    (work / "secret").write_text("hidden")
    before = contents(work)
    mount = Mount(source=str(work.parent), target="/mnt/again")
    for one in (mount, replace(mount, source=str(work))):
        with pytest.raises(UserError, match="unreviewed"):
            paddock.create("around", workspace=str(work), mounts=[one], view=View(mode=mode))
    read_only = replace(mount, read_only=True)
    view = View(mode=mode, masks=("secret",))
    box = paddock.create("around", workspace=str(work), mounts=[read_only], view=view)
    program = "say([attempt(open, f'{place}/new', 'w') for place in ARGS] + [os.path.getsize(f'{ARGS[0]}/secret')])"
    assert inside(box, program, "/mnt/again/work", str(work)) == ["EROFS", "ok", 0]
    assert contents(work) == before
    beside = paddock.create("live", workspace=str(work), mounts=[mount])
    assert inside(beside, program, "/mnt/again/work", str(work)) == ["ok", "ok", len("hidden")], "live mode is for that"


@pytest.mark.parametrize("mode", list(WorkspaceMode))
def test_no_other_repository_gets_the_name_of_a_workspace_inside_a_mount(
    paddock: Paddock, tmp_path: Path, mode: WorkspaceMode
) -> None:
    """A directory on the way to it that can be renamed, and the host would enter what the box has put there."""
    work = make_repository(tmp_path / "all" / "way" / "work")
    (tmp_path / "all" / "side").mkdir()
    mount = Mount(source=str(tmp_path / "all"), target=str(tmp_path / "all"))
    box = paddock.create("way", workspace=str(work), mounts=[mount], view=View(mode=mode))
    program = "say([attempt(os.rename, place, f'{place}-moved') for place in ARGS])"
    assert inside(box, program, str(work), str(work.parent), f"{mount.source}/side") == ["EBUSY", "EBUSY", "ok"]
    assert git(work, "log", "--format=%s") == "one\n"


@pytest.mark.parametrize("place", ["repository/.git", "repository/.git/hooks", "bare"])
def test_gits_own_directory_is_shown_read_only_or_not_at_all(
    paddock: Paddock, installation: Installation, tmp_path: Path, place: str
) -> None:
    git(make_repository(tmp_path / "repository"), "clone", "-q", "--bare", ".", "../bare")
    source = str(tmp_path / place)
    mount = Mount(source=source, target="/mnt/git")
    workspace = str(installation.workspace)
    for name, ask in {
        "as-workspace": {"workspace": source},
        "as-mount": {"workspace": workspace, "mounts": [mount]},
    }.items():
        with pytest.raises(UserError, match="git's own directory"):
            paddock.create(name, **ask).exec(["true"])  # type: ignore[arg-type]
    closed = paddock.create("closed", workspace=workspace, mounts=[replace(mount, read_only=True)])
    assert inside(closed, "say([attempt(os.listdir, '/mnt/git'), attempt(open, '/mnt/git/x', 'w')])") == ["ok", "EROFS"]


def test_a_worktree_keeps_its_pointer_to_the_repository(paddock: Paddock, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    git(repository, "worktree", "add", "-q", "../tree")
    tree = tmp_path / "tree"
    box = paddock.create("tree", workspace=str(tree))
    program = """
os.chdir(ARGS[0])
own = [attempt(open, ".git", "w"), attempt(os.rename, ".git", "x"), attempt(os.unlink, ".git")]
say([*own, attempt(open, "new", "w")])
"""
    assert inside(box, program, str(tree)) == ["EROFS", "EBUSY", "EBUSY", "ok"]
    assert "new" in git(tree, "status", "--porcelain")


def test_a_repository_that_is_a_link_is_refused_unless_it_is_read_only(paddock: Paddock, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    place = tmp_path / "linked"
    place.mkdir()
    (place / ".git").symlink_to(repository / ".git")
    with pytest.raises(UserError, match="is a symbolic link"):
        paddock.create("linked", workspace=str(place)).exec(["true"])
    (place / ".git").unlink()
    assert paddock.get("linked").exec(["true"]).ok


def test_a_box_cannot_turn_the_workspaces_repository_into_a_link(box: Box, repository: Path, tmp_path: Path) -> None:
    """A swap between two runs of the box would hand the second one another repository."""
    other = make_repository(tmp_path / "other")
    box.stop()
    program = "os.chdir(ARGS[0]); say([attempt(os.rename, '.git', 'old'), attempt(os.symlink, ARGS[1], '.git')])"
    assert inside(box, program, str(repository), str(other / ".git")) == ["EBUSY", "EEXIST"]
    box.stop()
    assert box.exec(["true"]).ok

"""Commits come home as objects below refs/paddock/<box>/, and nothing else of the host's repository changes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.workspace import git as git_runs
from paddock.workspace import home, hostrefs, repository
from tests.workspace.scenes import View, commit, git, make_repository, snapshot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box


@pytest.fixture
def view(tmp_path: Path) -> View:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    return View(make_repository(tmp_path / "work"), tmp_path / "private", user_home=tmp_path)


def outside_paddock(work: Path) -> dict[str, str]:
    """The host's repository but for the packs and references that are ours."""
    ours = ("refs/paddock", "logs/refs/paddock", "objects/pack/pack-")
    found = snapshot(work / ".git")
    return {path: state for path, state in found.items() if not path.startswith(ours) and path != "logs/refs"}


def put(view: View, data: bytes) -> None:
    """Leave a bundle as the box would."""
    (view.private_dir / "gitdir" / home.BUNDLE).write_bytes(data)


def take(view: View) -> home.Homecoming:
    return home.fetch(view.unit, view.name, f"{view.private_dir}/scratch")


def bundle(view: View, *words: str) -> bytes:
    """A bundle of the box's repository with a head of our choice."""
    view.run(f"git bundle create -q {view.private_dir}/made {shlex.join(words)}")
    return (view.private_dir / "made").read_bytes()


def renamed(data: bytes, old: str, new: str) -> bytes:
    head, _, pack = data.partition(b"\n\n")
    return head.replace(old.encode(), new.encode("utf-8", "surrogateescape")) + b"\n\n" + pack


def test_new_commits_arrive_and_nothing_else_changes(view: View) -> None:
    before = outside_paddock(view.workspace)
    view.run("git checkout -q -b fix/x; echo new > file; git commit -qam inside; git tag v1; git config a.b c")
    came = view.bring_home()
    tip = git(view.workspace, "rev-parse", "refs/paddock/box/fix/x").strip()
    assert came == home.Homecoming(
        arrived=(home.Arrival(ref="refs/paddock/box/fix/x", branch="fix/x", oid=tip, old=""),), skipped=()
    )
    assert git(view.workspace, "show", "refs/paddock/box/fix/x:file") == "new\n"
    assert outside_paddock(view.workspace) == before
    assert git(view.workspace, "branch", "--format=%(refname:short)") == "main\nother\n"
    assert not os.path.lexists(f"{view.private_dir}/scratch")
    git(view.workspace, "fsck", "--strict")


def test_what_came_before_is_not_taken_again(view: View) -> None:
    view.run("git commit -q --allow-empty -m inside")
    assert len(view.bring_home().arrived) == 1
    before = snapshot(view.workspace / ".git")
    assert view.bring_home() == home.Homecoming(arrived=(), skipped=())
    assert snapshot(view.workspace / ".git") == before


def test_a_rewritten_branch_replaces_the_old_and_a_log_keeps_that(view: View) -> None:
    view.run("git commit -q --allow-empty -m one")
    old = view.bring_home().arrived[0].oid
    view.run("git commit -q --allow-empty --amend -m two")
    came = view.bring_home().arrived[0]
    assert came.old == old
    assert git(view.workspace, "reflog", "show", "--format=%H", "refs/paddock/box/main").split() == [came.oid, old]


def test_a_box_without_a_new_commit_says_so(view: View) -> None:
    done = view.attempt(shlex.join(home.bundle_argv(view.unit)))
    assert done.returncode == 128
    assert home.NOTHING in done.stderr
    with pytest.raises(UserError, match="the box made none"):
        take(view)


def test_the_log_shows_what_came_and_not_what_was_there(view: View) -> None:
    view.run(
        "git checkout -q -b fix; git commit -q --allow-empty -m one; git commit -q --allow-empty -m $'a\\nb\\033[2J'"
    )
    assert home.log(view.unit, view.name) == ()
    view.bring_home()
    commit(view.workspace, "host", "host\n")
    assert [(row.subject, row.author) for row in home.log(view.unit, view.name)][1:] == [("one", "Somebody")]
    assert len(home.log(view.unit, view.name, 1)) == 1


def test_a_detached_head_comes_as_head(view: View) -> None:
    view.run("git checkout -q --detach; git commit -q --allow-empty -m loose")
    assert [item.ref for item in view.bring_home().arrived] == ["refs/paddock/box/HEAD"]


def test_the_first_commit_of_an_empty_repository_comes_home(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init", "-q", "-b", "main")
    view = View(tmp_path / "work", tmp_path / "private")
    view.run("git -c user.name=x -c user.email=x commit -q --allow-empty -m first")
    assert view.bring_home().arrived[0].branch == "main"


@pytest.mark.parametrize(
    ("branch", "ref"),
    [
        ("plain", "plain"),
        ("fix/x", "fix/x"),
        ("we$(touch x)ird".replace(" ", "_"), "we%24%28touch_x%29ird"),
        ("`id`;&|<>", "%60id%60%3B%26%7C%3C%3E"),
        ("\u202egnp", "%E2%80%AEgnp"),
        ("umläut", "uml%C3%A4ut"),
        ("caf\udcff", "caf%FF"),
        ("100%", "100%25"),
        ("'quoted'\"", "%27quoted%27%22"),
    ],
)
def test_a_strange_name_of_a_branch_arrives_as_letters(view: View, branch: str, ref: str) -> None:
    view.run(f"git checkout -q -b x; git commit -q --allow-empty -m inside; git branch -m {shlex.quote(branch)}")
    assert [(item.branch, item.ref) for item in view.bring_home().arrived if item.branch != "x"] == [
        (branch, f"refs/paddock/box/{ref}")
    ]


def test_branches_that_exclude_each_other_over_time_are_all_kept(view: View) -> None:
    view.run("git checkout -q -b a; git commit -q --allow-empty -m one")
    view.bring_home()
    view.run("git branch -m a/b; git commit -q --allow-empty -m two")
    assert [item.ref for item in view.bring_home().arrived] == ["refs/paddock/box/%61%2Fb"]
    assert home.local_name("box", "a", {"refs/paddock/box/a/b"}) == "refs/paddock/box/%61"
    assert len(git(view.workspace, "for-each-ref", "refs/paddock/box").splitlines()) == 2


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads/../../../../outside",
        "refs/heads/../main",
        "refs/heads/x.lock",
        "refs/heads/-x",
        "refs/heads/.hidden",
        "refs/heads/a..b",
        "refs/heads/a\x07b",
        "refs/heads/",
        "refs/heads//x",
        "refs/heads/x/",
        "refs/tags/v1",
        "refs/paddock/other/main",
        "refs/remotes/origin/main",
        "refs/replace/0123456789012345678901234567890123456789",
        "refs/stash",
        "main",
        "FETCH_HEAD",
        "config",
        "../config",
        "/etc/passwd",
    ],
)
def test_a_name_outside_the_boxs_own_never_arrives(view: View, name: str) -> None:
    view.run("git checkout -q -b good; git commit -q --allow-empty -m inside; git branch evil")
    before = outside_paddock(view.workspace)
    put(view, renamed(bundle(view, "good", "evil", "--not", "main"), "refs/heads/evil", name))
    came = take(view)
    assert [item.ref for item in came.arrived] == ["refs/paddock/box/good"]
    assert [skipped for skipped, _ in came.skipped] == [name]
    assert outside_paddock(view.workspace) == before
    # The oracle: without us, git fetch takes the bundle's own names where they are names at all.
    if name.startswith("refs/tags/"):
        git(view.workspace, "fetch", "-q", f"{view.private_dir}/gitdir/{home.BUNDLE}", "+refs/*:refs/*", check=False)
        assert git(view.workspace, "tag") == "v1\n"


def test_a_reference_cannot_point_to_something_else_than_a_commit(view: View) -> None:
    view.run("git checkout -q -b good; echo x > x; git add x; git commit -qm inside")
    blob = view.run("git rev-parse HEAD:x").strip()
    tip = view.run("git rev-parse HEAD").strip()
    data = bundle(view, "good", "--not", "main")
    put(view, renamed(data, f"{tip} refs/heads/good", f"{tip} refs/heads/good\n{blob} refs/heads/blob"))
    came = take(view)
    assert [item.branch for item in came.arrived] == ["good"]
    assert came.skipped == (("blob", "not a commit"),)


MALFORMED = {
    "empty": b"",
    "no bundle": b"hello\n\nPACK",
    "binary": bytes(range(256)) * 100,
    "no end of head": b"# v2 git bundle\n" + b"x" * 2_000_000,
    "head only": b"# v2 git bundle\n\n",
    "no pack": b"# v2 git bundle\n" + b"0" * 40 + b" refs/heads/x\n\n",
    "pack cut short": b"# v2 git bundle\n" + b"0" * 40 + b" refs/heads/x\n\nPACK\0\0\0\2\0\0\0\1",
    "other version": b"# v9 git bundle\n\nPACK",
    "filter": b"# v3 git bundle\n@filter=blob:none\n\nPACK",
    "other objects": b"# v3 git bundle\n@object-format=sha256\n" + b"0" * 40 + b" refs/heads/x\n\nPACK",
    "long id": b"# v2 git bundle\n" + b"0" * 64 + b" refs/heads/x\n\nPACK",
    "twice": b"# v2 git bundle\n" + (b"0" * 40 + b" refs/heads/x\n") * 2 + b"\nPACK",
    "no space": b"# v2 git bundle\n" + b"0" * 40 + b"\n\nPACK",
    "too many": b"# v2 git bundle\n" + b"".join(b"%040d refs/heads/%d\n" % (n, n) for n in range(2000)) + b"\nPACK",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_bundle_is_refused_as_a_whole(view: View, name: str) -> None:
    before = snapshot(view.workspace / ".git")
    put(view, MALFORMED[name])
    with pytest.raises(UserError, match="the bundle of the box was refused"):
        take(view)
    assert snapshot(view.workspace / ".git") == before
    assert not os.path.lexists(f"{view.private_dir}/scratch")


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "sparse", "socket"])
def test_what_is_no_file_in_place_of_a_bundle_is_refused_at_once(view: View, tmp_path: Path, kind: str) -> None:
    place = view.private_dir / "gitdir" / home.BUNDLE
    view.run("git commit -q --allow-empty -m inside")
    (tmp_path / "real").write_bytes(bundle(view, "main", "--not", "other"))
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "real")
    elif kind == "directory":
        place.mkdir()
    elif kind == "socket":
        import socket

        at = os.open(place.parent, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{at}/{home.BUNDLE}")
        os.close(at)
    else:
        with open(place, "wb") as file:
            file.truncate(limits.BUNDLE_BYTES + 1)
    with pytest.raises(Exception, match=r"refused|cannot take"):
        take(view)
    home.forget_bundle(view.unit)
    assert not os.path.lexists(place)
    assert (tmp_path / "real").exists()


def test_a_bundle_over_the_limit_is_refused(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    view.run("head -c 300000 /dev/urandom > big; git add big; git commit -qm big; rm big")
    monkeypatch.setattr(limits, "BUNDLE_BYTES", 100_000)
    with pytest.raises(UserError, match="has over"):
        view.bring_home()
    monkeypatch.undo()
    assert view.bring_home().arrived


def plant_object(view: View, kind: str, text: str) -> str:
    """An object that git would not make, in the box."""
    (view.private_dir / "object").write_bytes(text.encode("utf-8", "surrogateescape"))
    return view.run(f"git hash-object -t {kind} -w --literally {view.private_dir}/object").strip()


BROKEN_TREES = {
    "a file called .git": "100644 .git",
    "a directory called ..": "40000 ..",
    "a name with a slash": "100644 a/b",
    "a file called .GIT": "100644 .GIT",
    "a file called git~1": "100644 git~1",
    ".git as HFS+ reads it": "100644 .g\u200cit",
}


@pytest.mark.parametrize("name", BROKEN_TREES)
def test_objects_that_fail_fsck_do_not_arrive(view: View, name: str) -> None:
    blob, tree = view.run("git rev-parse HEAD:file HEAD^{tree}").split()
    oid = tree if BROKEN_TREES[name].startswith("4") else blob
    entry = BROKEN_TREES[name].encode() + b"\0" + bytes.fromhex(oid)
    (view.private_dir / "tree").write_bytes(entry)
    script = f"git commit-tree -m evil -p HEAD $(git hash-object -t tree -w --literally {view.private_dir}/tree)"
    view.run(f"git branch evil $({script})")
    before = snapshot(view.workspace / ".git")
    with pytest.raises(UserError, match="was refused"):
        view.bring_home()
    assert snapshot(view.workspace / ".git") == before
    # The oracle: a plain git takes them.
    data = f"{view.private_dir}/gitdir/{home.BUNDLE}"
    git(view.workspace, "fetch", "-q", data, "evil:evil")


def test_a_submodule_file_that_runs_a_program_does_not_arrive(view: View) -> None:
    text = '[submodule "a"]\\n\\tpath = a\\n\\turl = --upload-pack=evil\\n'
    view.run(f"printf '{text}' > .gitmodules; git add .gitmodules; git commit -qm evil")
    with pytest.raises(UserError, match="was refused"):
        view.bring_home()


def test_a_history_with_a_hole_does_not_arrive(view: View) -> None:
    missing = "1" * 40
    text = f"tree {'2' * 40}\nparent {missing}\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n"
    commit_id = plant_object(view, "commit", text)
    view.run(f"echo {commit_id} | git pack-objects -q --stdout > {view.private_dir}/pack")
    pack = (view.private_dir / "pack").read_bytes()
    put(view, f"# v2 git bundle\n{commit_id} refs/heads/x\n\n".encode() + pack)
    before = snapshot(view.workspace / ".git")
    with pytest.raises(UserError, match="was refused"):
        take(view)
    assert snapshot(view.workspace / ".git") == before


@pytest.mark.parametrize("place", ["refs/paddock", "logs"])
def test_a_link_where_references_go_is_not_followed(view: View, tmp_path: Path, place: str) -> None:
    view.run("git commit -q --allow-empty -m inside")
    outside = tmp_path / "outside"
    (view.workspace / ".git" / place).rename(outside)
    (view.workspace / ".git" / place).symlink_to(outside)
    before = snapshot(outside)
    with pytest.raises(UserError, match="git would write elsewhere"):
        view.bring_home()
    assert snapshot(outside) == before


def test_the_hosts_hooks_do_not_run(view: View, tmp_path: Path) -> None:
    hook = view.workspace / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    view.run("git commit -q --allow-empty -m inside")
    assert view.bring_home().arrived
    assert not (tmp_path / "ran").exists()
    git(view.workspace, "branch", "oracle")
    assert (tmp_path / "ran").exists()


def test_a_link_where_a_log_goes_is_not_written_through(view: View, tmp_path: Path) -> None:
    """A line of a log holds the name of the one who commits, which is the repository's to choose."""
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    log = view.workspace / ".git/logs/refs/paddock/box/main"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.symlink_to(victim)
    view.run("git commit -q --allow-empty -m inside")
    with pytest.raises(UserError, match="git would write elsewhere"):
        view.bring_home()
    assert victim.read_text() == "mine\n"
    git(view.workspace, "update-ref", "--create-reflog", "-m", "x", "refs/paddock/box/main", "HEAD")  # the oracle
    assert victim.read_text() != "mine\n"


@pytest.mark.privileged
def test_root_works_in_the_repository_of_another_with_their_rights_alone(tmp_path: Path) -> None:
    """Whoever owns it may swap a directory for a link at any moment, so no check before it is enough."""
    for directory in (tmp_path, *tmp_path.parents):
        if not directory.stat().st_mode & 1:
            directory.chmod(directory.stat().st_mode | 0o011)
    work = make_repository(tmp_path / "work")
    subprocess.run(["chown", "-R", "61235:61235", work], check=True)
    found = repository.find(os.fspath(work))
    place = git_runs.owned(found.common_dir, found.owner)
    assert place.owner == (61235, 61235)
    words = ["update-ref", "--create-reflog", "-m", "x", "--stdin"]
    line = f"create refs/paddock/x/y {git_runs.output(['rev-parse', 'HEAD'], place).decode()}".encode()
    (tmp_path / "victim").mkdir()
    shutil.rmtree(work / ".git/logs/refs")
    (work / ".git/logs/refs").symlink_to(tmp_path / "victim")
    assert git_runs.hardened(words, place, stdin=line).code != 0
    assert not list((tmp_path / "victim").rglob("*"))
    assert git_runs.hardened(words, replace(place, owner=None), stdin=line).code == 0  # the oracle
    assert list((tmp_path / "victim").rglob("y"))
    (work.parent).chmod(0o700)
    assert git_runs.owned(found.common_dir, found.owner).owner is None, "they cannot get there, and so do no harm"


@pytest.mark.privileged
def test_root_leaves_nothing_in_the_repository_of_another_that_is_not_theirs(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    subprocess.run(["chown", "-R", "61235:61235", work], check=True)
    view = View(work, tmp_path / "private")
    view.run("git -c user.name=x -c user.email=x commit -q --allow-empty -m inside")
    assert view.bring_home().arrived
    hostrefs.release(view.unit, "box")
    strange = [path for path in (work / ".git").rglob("*") if path.lstat().st_uid != 61235]
    assert strange == []


def test_the_repository_is_found_as_it_was(view: View) -> None:
    assert repository.find(os.fspath(view.workspace)) == view.found

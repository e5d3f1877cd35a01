"""What a box may plant for the host's git to run later. Each attack has its twin: unprotected, the same script runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from paddock.workspace import clone, gitdir, home, hostrefs, nested, repository
from paddock.workspace.git import Place, hardened
from tests.workspace.scenes import ENV, View, git, make_repository, with_submodule

pytestmark = pytest.mark.box

# $EVIL is a program that leaves a mark; config makes git run it in every way that its everyday commands know.
CONFIG = """
config() {
  printf '[core]\\n\\trepositoryformatversion = 0\\n'
  printf '\\tfsmonitor = %s\\n\\tpager = %s\\n\\teditor = %s\\n' $EVIL $EVIL $EVIL
  printf '[diff]\\n\\texternal = %s\\n' $EVIL
}
hook() {
  mkdir -p "$1"
  for name in pre-commit post-commit post-index-change post-checkout; do cp $EVIL "$1/$name"; done
}
plant() {
  git init -q "$1"
  config >> "$1/.git/config"
  (cd "$1"; git commit -q --no-verify --allow-empty -m x)
}
bareconfig() { config; printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n'; }
bare() {
  mkdir -p "$1/objects" "$1/refs"
  echo 'ref: refs/heads/main' > "$1/HEAD"
  bareconfig > "$1/config"
}
"""


def plain(place: Path) -> Path:
    return make_repository(place / "work")


def worktree_config(place: Path) -> Path:
    work = plain(place)
    git(work, "config", "extensions.worktreeConfig", "true")
    return work


def filtered(place: Path) -> Path:
    work = plain(place)
    (work / ".gitattributes").write_text("* filter=x diff=x\n")
    return work


def with_nested(place: Path) -> Path:
    work = plain(place)
    make_repository(work / "vendor/lib")
    return work


def with_bare(place: Path) -> Path:
    work = plain(place)
    (work / "fixtures").mkdir()
    git(work, "clone", "-q", "--bare", ".", "fixtures/repo")
    return work


def uninitialised(place: Path) -> Path:
    origin = with_submodule(place)
    git(place, "clone", "-q", os.fspath(origin), "work")
    return place / "work"


def deleted_submodule(place: Path) -> Path:
    work = uninitialised(place)
    (work / "libs/sub").rmdir()
    (work / "libs").rmdir()
    return work


def filled_submodule(place: Path) -> Path:
    work = uninitialised(place)
    (work / "libs/sub/file").write_text("mine")
    return work


def no_repository(place: Path) -> Path:
    (place / "work").mkdir()
    (place / "work/file").write_text("x")
    return place / "work"


def linked(place: Path) -> Path:
    main = make_repository(place / "main")
    git(main, "worktree", "add", "-q", "-b", "side", "../side")
    return place / "side"


def with_script(place: Path, script: str = "tools/script") -> Path:
    work = plain(place)
    (work / script).parent.mkdir(parents=True)
    (work / script).write_text("#!/bin/sh\nexit 0\n")
    (work / script).chmod(0o755)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "script")
    return work


def hooks_among_files(place: Path) -> Path:
    work = with_script(place, "tools/pre-commit")
    git(work, "config", "core.hooksPath", "tools")
    return work


def hooks_to_come(place: Path) -> Path:
    work = plain(place)
    git(work, "config", "core.hooksPath", "later/hooks")
    return work


def linked_hook(place: Path) -> Path:
    work = with_script(place)
    (work / ".git/hooks").mkdir(exist_ok=True)
    (work / ".git/hooks/pre-commit").symlink_to("../../tools/script")
    return work


def linked_hooks(place: Path) -> Path:
    work = with_script(place, "tools/pre-commit")
    shutil.rmtree(work / ".git/hooks", ignore_errors=True)
    (work / ".git/hooks").symlink_to("../tools")
    return work


def including(place: Path) -> Path:
    work = plain(place)
    (work / "team").mkdir()
    (work / "team/config").write_text("[alias]\n\tst = status\n[include]\n\tpath = more\n")
    (work / "team/more").write_text("[alias]\n\tci = commit\n")
    git(work, "config", "include.path", "../team/config")
    return work


def own_filter(place: Path) -> Path:
    work = with_script(place)
    (work / ".gitattributes").write_text("* filter=x\n")
    git(work, "config", "filter.x.clean", "sh tools/script %f")
    return work


def part_with_submodule(place: Path) -> Path:
    """The workspace is a directory of a repository, and in it is a submodule that is not checked out."""
    return uninitialised(place) / "libs"


def part_with_hooks(place: Path) -> Path:
    work = with_script(place, "part/hooks/pre-commit")
    git(work, "config", "core.hooksPath", "part/hooks")
    return work / "part"


@dataclass(frozen=True)
class Attack:
    """`enter` is where the user stands later. One that cannot be prevented must be found, and harmless once moved."""

    scene: Callable[[Path], Path]
    script: str
    enter: str = "."
    prevented: bool = True


ATTACKS = {
    "config": Attack(plain, "config >> .git/config"),
    "fsmonitor": Attack(plain, "printf '[core]\\n\\tfsmonitor = %s\\n' $EVIL >> .git/config"),
    "hooksPath": Attack(plain, "hook evil; printf '[core]\\n\\thooksPath = evil\\n' >> .git/config"),
    "include.path": Attack(plain, "config > evil; printf '[include]\\n\\tpath = ../evil\\n' >> .git/config"),
    "filter": Attack(filtered, "printf '[filter \"x\"]\\n\\tclean = %s\\n' $EVIL >> .git/config; echo n > file"),
    "textconv": Attack(filtered, "printf '[diff \"x\"]\\n\\ttextconv = %s\\n' $EVIL >> .git/config; echo n > file"),
    "commondir": Attack(plain, "mkdir -p evil/objects evil/refs; config > evil/config; echo ../evil > .git/commondir"),
    "config.worktree": Attack(worktree_config, "config > .git/config.worktree"),
    "hooks": Attack(plain, "hook .git/hooks"),
    "rename": Attack(plain, "cp -a .git copy; config >> copy/config; mv .git moved; mv copy .git"),
    "file in its place": Attack(plain, "bare evil; mv .git moved; echo 'gitdir: evil' > .git"),
    "link in its place": Attack(plain, "bare evil; rm -rf .git; ln -s evil .git"),
    "poisoned index": Attack(
        plain, "plant evil; git update-index --add --cacheinfo 160000,$(git -C evil rev-parse HEAD),evil"
    ),
    "hooks of a submodule": Attack(with_submodule, "hook .git/modules/libs/sub/hooks", "libs/sub"),
    "config of a submodule": Attack(with_submodule, "config >> .git/modules/libs/sub/config"),
    "pointer of a submodule": Attack(
        with_submodule, "bare evil; rm libs/sub/.git; echo 'gitdir: ../../evil' > libs/sub/.git"
    ),
    "submodule replaced": Attack(with_submodule, "rm -rf libs/sub; plant libs/sub"),
    "submodule renamed": Attack(with_submodule, "mv libs/sub libs/old; plant libs/sub"),
    "way to a submodule renamed": Attack(with_submodule, "mv libs old; mkdir libs; plant libs/sub"),
    "submodule not checked out": Attack(uninitialised, "plant libs/sub"),
    "submodule deleted": Attack(deleted_submodule, "mkdir -p libs; plant libs/sub"),
    "submodule without repository": Attack(filled_submodule, "plant libs/sub"),
    "way to it renamed": Attack(uninitialised, "mv libs old; mkdir libs; plant libs/sub"),
    "nested config": Attack(with_nested, "config >> vendor/lib/.git/config", "vendor/lib"),
    "nested hooks": Attack(with_nested, "hook vendor/lib/.git/hooks", "vendor/lib"),
    "nested renamed": Attack(with_nested, "mv vendor/lib/.git vendor/lib/x; plant vendor/lib", "vendor/lib"),
    "way to nested renamed": Attack(with_nested, "mv vendor old; mkdir vendor; plant vendor/lib", "vendor/lib"),
    "bare config": Attack(with_bare, "bareconfig >> fixtures/repo/config", "fixtures/repo"),
    "worktree pointer": Attack(linked, "bare evil; rm .git; echo 'gitdir: evil' > .git"),
    "worktree commondir": Attack(
        linked,
        "mkdir -p evil/objects evil/refs; config > evil/config; echo $PWD/evil > ../main/.git/worktrees/side/commondir",
    ),
    "common config": Attack(linked, "config >> ../main/.git/config"),
    "hooks among the files": Attack(hooks_among_files, "cat $EVIL > tools/pre-commit"),
    "way to hooks renamed": Attack(hooks_among_files, "mv tools old; hook tools"),
    "hooks to come": Attack(hooks_to_come, "hook later/hooks"),
    "linked hook": Attack(linked_hook, "cat $EVIL > tools/script"),
    "linked hooks": Attack(linked_hooks, "cat $EVIL > tools/pre-commit"),
    "included file": Attack(including, "config >> team/config"),
    "included by that": Attack(including, "config >> team/more"),
    "filter of the project": Attack(own_filter, "cat $EVIL > tools/script; echo n > file"),
    "submodule in a part": Attack(part_with_submodule, "plant sub", ".."),
    "hooks in a part": Attack(part_with_hooks, "cat $EVIL > hooks/pre-commit", ".."),
    "init": Attack(no_repository, "plant ."),
    "init by hand": Attack(no_repository, "bare .git; mkdir -p .git/hooks; hook .git/hooks"),
    "new nested": Attack(plain, "plant new", "new", prevented=False),
    "new nested in depth": Attack(plain, "mkdir -p a/b/c; plant a/b/c/d", "a/b/c/d", prevented=False),
    "new pointer": Attack(plain, "bare evil; mkdir new; echo 'gitdir: ../evil' > new/.git", "new", prevented=False),
    "new link": Attack(plain, "bare evil; mkdir new; ln -s ../evil new/.git", "new", prevented=False),
    "embedded bare": Attack(plain, "bare innocent", "innocent", prevented=False),
    "bare workspace": Attack(no_repository, "bare .", prevented=False),
}


def script_of(attack: Attack, evil: Path) -> str:
    names = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"
    return f"set +eu; EVIL={evil}; {names}; {CONFIG}\n{attack.script}\ntrue"


def make_evil(place: Path) -> tuple[Path, Path]:
    place.mkdir()
    evil, mark = place / "evil", place / "mark"
    evil.write_text(f"#!/bin/sh\necho >> {mark}\n")
    evil.chmod(0o755)
    return evil, mark


def everyday(where: Path, settings: tuple[tuple[str, str], ...] = ()) -> None:
    """What a user and their editor do."""
    env = {**ENV, "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    for words in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "more", "--allow-empty"], ["log", "-1"]):
        subprocess.run(["git", *words], cwd=where, env=env, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_hosts_git_runs_nothing_that_a_box_planted(tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    evil, mark = make_evil(tmp_path / "programs")
    (tmp_path / "ours").mkdir()
    work = attack.scene(tmp_path / "ours")
    view = View(work, tmp_path / "private")
    before = nested.find(os.fspath(work))
    view.run(script_of(attack, evil))
    mark.unlink(missing_ok=True)  # what ran inside was the box's own affair
    found = nested.new(before, nested.find(os.fspath(work)), 0)
    if attack.prevented:
        everyday(work)
    else:
        assert found, "neither prevented nor found"
    for item in found:  # with what their user is told to do
        subprocess.run(["sh", "-c", nested.remedy(os.fspath(work), item.path)], check=True)
    everyday(work)
    if (work / attack.enter).is_dir():
        everyday(work / attack.enter)
    assert not mark.exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_unprotected_the_same_attack_runs(tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    evil, mark = make_evil(tmp_path / "programs")
    (tmp_path / "twin").mkdir()
    work = attack.scene(tmp_path / "twin")
    subprocess.run(["sh", "-c", script_of(attack, evil)], cwd=work, env=ENV, capture_output=True, check=True)
    mark.unlink(missing_ok=True)
    everyday(work / attack.enter)
    assert mark.exists(), "the attack is not live, so its denial proves nothing"


@pytest.mark.parametrize("name", ["embedded bare", "submodule not checked out", "bare workspace"])
def test_the_settings_we_advise_close_what_a_bind_mount_cannot(tmp_path: Path, name: str) -> None:
    """Unprotected, but with the user's own git told to enter nothing by itself; the test above is the oracle."""
    attack = ATTACKS[name]
    evil, mark = make_evil(tmp_path / "programs")
    (tmp_path / "twin").mkdir()
    work = attack.scene(tmp_path / "twin")
    subprocess.run(["sh", "-c", script_of(attack, evil)], cwd=work, env=ENV, capture_output=True, check=True)
    mark.unlink(missing_ok=True)
    everyday(work / attack.enter, nested.ADVISED)
    assert not mark.exists()


def test_alternates_of_a_box_are_not_the_hosts(tmp_path: Path) -> None:
    script = "git init -q evil; oid=$(echo x | git -C evil hash-object -w --stdin); echo $PWD/evil/.git/objects"
    script += " >> .git/objects/info/alternates; echo $oid"
    view = View(plain(tmp_path), tmp_path / "private")
    oid = view.run(script).strip()
    assert subprocess.run(["git", "cat-file", "-e", oid], cwd=view.workspace, env=ENV, check=False).returncode
    (tmp_path / "twin").mkdir()
    twin = plain(tmp_path / "twin")
    subprocess.run(["sh", "-c", script], cwd=twin, env=ENV, capture_output=True, check=True)
    assert subprocess.run(["git", "cat-file", "-e", oid], cwd=twin, env=ENV, check=False).returncode == 0


# The worst case for our own runs of git: a repository that a box wrote before we came, full of programs.
HOSTILE = """
config >> .git/config
hook .git/hooks
hook evilhooks
printf '[core]\\n\\thooksPath = %s/evilhooks\\n\\tsshCommand = %s\\n' $PWD $EVIL >> .git/config
printf '[core]\\n\\tgitProxy = %s\\n\\taskPass = %s\\n' $EVIL $EVIL >> .git/config
printf '[core]\\n\\talternateRefsCommand = %s\\n' $EVIL >> .git/config
printf '[filter "x"]\\n\\tclean = %s\\n\\tsmudge = %s\\n\\trequired = true\\n' $EVIL $EVIL >> .git/config
printf '[diff "x"]\\n\\ttextconv = %s\\n[merge "x"]\\n\\tdriver = %s\\n' $EVIL $EVIL >> .git/config
printf '[credential]\\n\\thelper = %s\\n[uploadpack]\\n\\tpackObjectsHook = %s\\n' $EVIL $EVIL >> .git/config
printf '[gpg]\\n\\tprogram = %s\\n[log]\\n\\tshowSignature = true\\n' $EVIL >> .git/config
printf '[commit]\\n\\tgpgSign = true\\n' >> .git/config
printf '[include]\\n\\tpath = %s/more\\n' $PWD >> .git/config; config > more
hook .git/hooks; cp $EVIL .git/hooks/reference-transaction; cp $EVIL evilhooks/reference-transaction
"""


def test_our_own_runs_of_git_run_nothing_of_a_hostile_repository(tmp_path: Path) -> None:
    evil, mark = make_evil(tmp_path / "programs")
    work = filtered(tmp_path)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "attributes")
    subprocess.run(["sh", "-c", script_of(Attack(plain, HOSTILE), evil)], cwd=work, env=ENV, check=True)
    mark.unlink(missing_ok=True)
    view = View(work, tmp_path / "private")
    view.run("git -c user.name=x -c user.email=x commit -q --allow-empty -m inside")
    assert view.bring_home().arrived
    assert len(home.log(view.unit, "box")) == 1
    found = repository.find(os.fspath(work))
    made = clone.make(os.fspath(tmp_path / "clone"), found, branch="fix", who=gitdir.Identity())
    assert sorted(os.listdir(made.tree)) == [".git", ".gitattributes", "dir", "file"]
    hardened(["pack-refs", "--all"], Place(git_dir=found.common_dir))
    hostrefs.release(view.unit, "box")
    assert not mark.exists()
    everyday(work)
    assert mark.exists()


def test_our_own_runs_start_no_program_but_git(tmp_path: Path) -> None:
    work = plain(tmp_path)
    view = View(work, tmp_path / "private")
    view.run("git -c user.name=x -c user.email=x commit -q --allow-empty -m inside")
    unit = view.unit
    home.forget_bundle(unit)
    view.run(" ".join(home.bundle_argv(unit)))
    code = (
        "import sys; from paddock.workspace import gitdir, home, hostrefs as h, repository;"
        " unit = gitdir.load(sys.argv[1], repository.find(sys.argv[2])).units[0];"
        " h.keep(unit, 'b'); home.fetch(unit, 'b', sys.argv[1] + '/scratch');"
        " home.log(unit, 'b'); h.release(unit, 'b')"
    )
    trace = tmp_path / "trace"
    words = ["strace", "-f", "-qq", "-e", "trace=execve", "-o", os.fspath(trace)]
    env = {**ENV, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        argv = [*words, sys.executable, "-c", code, os.fspath(tmp_path / "private"), os.fspath(work)]
        subprocess.run(argv, env=env, check=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("there is no strace here")
    started = [line.split('"')[1] for line in trace.read_text().splitlines() if "execve(" in line and " = 0" in line]
    assert {os.path.basename(path) for path in started[1:]} == {"git"}
    assert len(started) > 4

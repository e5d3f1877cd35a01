"""The issue's attack list against git, in every mode: a hostile agent plants all of it, and the host goes on working.

One box carries all attacks. Afterwards the host's git, `diff`, `apply`, the report at the end and `paddock git` run
nothing of the agent's, and nothing lies outside the workspace. Each attack has its twin: the same words in a plain copy
of the project, where the host's git does run it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.workspace.scenes import ENV, git, make_repository, snapshot
from tests.workspace.test_attacks import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

MODES = {"live": [], "review": ["--review"], "clone": ["--clone", "--branch", "fix"]}


@dataclass(frozen=True)
class Attack:
    """`enter` is where the user stands later; `new`: a repository that a live box can only be told to have made."""

    script: str
    enter: str = "."
    new: bool = False


# In the order in which one box does them: what replaces `.git` as a whole comes last.
ATTACKS = {
    "config": Attack("config >> .git/config"),
    "fsmonitor": Attack("printf '[core]\\n\\tfsmonitor = %s\\n' $EVIL >> .git/config"),
    "hooksPath": Attack("hook planted; printf '[core]\\n\\thooksPath = planted\\n' >> .git/config"),
    "include.path": Attack("config > inc; printf '[include]\\n\\tpath = ../inc\\n' >> .git/config"),
    "filter": Attack("printf '[filter \"x\"]\\n\\tclean = %s\\n' $EVIL >> .git/config; echo n > file"),
    "textconv": Attack("printf '[diff \"x\"]\\n\\ttextconv = %s\\n' $EVIL >> .git/config; echo n > file"),
    "config.worktree": Attack("config > .git/config.worktree"),
    "hooks": Attack("hook .git/hooks"),
    "team's hooks": Attack("hook team"),
    "team's configuration": Attack("config >> team.config"),
    "hooks of a submodule": Attack("hook .git/modules/libs/sub/hooks", "libs/sub"),
    "config of a submodule": Attack("config >> .git/modules/libs/sub/config"),
    "pointer of a submodule": Attack("bare b1; rm libs/sub/.git; echo 'gitdir: ../../b1' > libs/sub/.git"),
    "submodule replaced": Attack("rm -rf libs/sub; plant libs/sub"),
    "way to a submodule renamed": Attack("mv libs gone; mkdir libs; plant libs/sub"),
    "gitlink": Attack("plant link; git update-index --add --cacheinfo 160000,$(git -C link rev-parse HEAD),link"),
    "nested config": Attack("config >> vendor/lib/.git/config", "vendor/lib"),
    "nested hooks": Attack("hook vendor/lib/.git/hooks", "vendor/lib"),
    "way to nested renamed": Attack("mv vendor away; mkdir vendor; plant vendor/lib", "vendor/lib"),
    "bare config": Attack("bareconfig >> fixtures/repo/config", "fixtures/repo"),
    "new nested": Attack("plant new", "new", new=True),
    "new in the depth": Attack("mkdir -p a/b/c; plant a/b/c/d", "a/b/c/d", new=True),
    "embedded bare": Attack("bare innocent", "innocent", new=True),
    "new pointer": Attack("bare b2; mkdir ptr; echo 'gitdir: ../b2' > ptr/.git", "ptr", new=True),
    "new link": Attack("bare b3; mkdir lnk; ln -s ../b3 lnk/.git", "lnk", new=True),
    "commondir": Attack("mkdir -p evil/objects evil/refs; config > evil/config; echo ../evil > .git/commondir"),
    "rename": Attack("cp -a .git copy; config >> copy/config; mv .git moved; mv copy .git"),
    "file in its place": Attack("bare b4; mv .git moved2; echo 'gitdir: b4' > .git"),
    "link in its place": Attack("bare b5; rm -rf .git; ln -s b5 .git"),
}
NEW = sorted({attack.enter for attack in ATTACKS.values() if attack.new})
NAMES = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"


def project(place: Path) -> Path:
    """A project with all that is attacked: a submodule, a repository inside, a bare one, hooks among its files."""
    library = make_repository(place / "library")
    work = make_repository(place / "project")
    (work / ".gitattributes").write_text("* filter=x diff=x\n")
    (work / "team").mkdir()
    (work / "team/pre-commit").write_text("#!/bin/sh\nexit 0\n")
    (work / "team/pre-commit").chmod(0o755)
    (work / "team.config").write_text("[alias]\n\tst = status\n")
    git(work, "submodule", "--quiet", "add", os.fspath(library), "libs/sub")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "all")
    for key, value in {"extensions.worktreeConfig": "true", "include.path": "../team.config"}.items():
        git(work, "config", key, value)
    (work / ".git/hooks").mkdir(exist_ok=True)
    (work / ".git/hooks/pre-commit").symlink_to("../../team/pre-commit")
    make_repository(work / "vendor/lib")
    (work / "fixtures").mkdir()
    git(work, "clone", "-q", "--bare", ".", "fixtures/repo")
    return work


# No box sees the program itself, so a hook is a script that starts it.
HOOK = """
hook() {
  mkdir -p "$1"
  for name in pre-commit post-commit post-index-change post-checkout; do
    printf '#!/bin/sh\\nexec %s\\n' $EVIL > "$1/$name"; chmod 755 "$1/$name"
  done
}
"""


def words(script: str, evil: Path) -> str:
    return f"set +eu; EVIL={evil}; {NAMES}; {CONFIG}{HOOK}\n{script}\ntrue"


def program(place: Path) -> tuple[Path, Path]:
    """What an attack would have the host run, and the mark it leaves: out of the reach of any box."""
    place.mkdir()
    evil, mark = place / "evil", place / "mark"
    evil.write_text(f"#!/bin/sh\necho $0 $PWD >> {mark}\n")
    evil.chmod(0o755)
    return evil, mark


def everyday(where: Path) -> None:
    """What a user does; not `add -A`, which would make repositories of the box's own into submodules."""
    for line in (["status"], ["diff"], ["commit", "-qam", "more", "--allow-empty"], ["log", "-1"], ["status"]):
        subprocess.run(
            ["git", *line], cwd=where, env={**ENV, "HOME": "/"}, capture_output=True, check=False, timeout=60
        )


def obeyed(work: Path) -> dict[str, str]:
    """All of the host's repository, and of its submodules', but for objects and our own references."""
    found = snapshot(work / ".git")
    ours = ("objects", "logs", "refs/paddock")
    return {name: value for name, value in found.items() if not any(f"/{part}" in f"/{name}" for part in ours)}


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_a_box_planted_runs_on_the_host(installation: Installation, tmp_path: Path, mode: str) -> None:
    work = project(installation.workspace)
    evil, mark = program(tmp_path / "programs")
    before, beside = obeyed(work), snapshot(installation.workspace / "library")
    script = "git commit -q --allow-empty -m inside\n" + "\n".join(f"({one.script})" for one in ATTACKS.values())
    ran = installation.cli("run", *MODES[mode], "--name", "box", "--", "sh", "-c", words(script, evil), cwd=work)
    assert ran.returncode == 0, ran.stderr
    mark.unlink(missing_ok=True)
    told = ran.stderr.decode()
    if mode == "live":
        for place in NEW:
            assert f"{place}/.git: git obeys it" in told or f"{place}: git obeys it" in told, (place, told)
    else:
        assert not any((work / place).exists() for place in NEW)
    assert obeyed(work) == before
    for place in (".", "libs/sub", "vendor/lib", "fixtures/repo"):
        everyday(work / place)
    for line in (["diff", "box"], ["apply", "--all", "box"], ["git", "box", "fetch"], ["git", "box", "log"]):
        done = installation.cli(*line, cwd=work)
        assert done.returncode in {0, 1, 2, 125}, (line, done.stderr)
        assert b"Traceback" not in done.stderr
    everyday(work)
    if mode == "review":  # and by someone who says yes to all but what their own settings make git obey
        names = installation.cli("diff", "--names", "box", cwd=work).stdout.decode().splitlines()
        chosen = [name[3:].rstrip("/") for name in names if "team" not in name]
        assert {f"!M {name}" for name in ("team.config", "team/pre-commit")} <= set(names)
        installation.cli("apply", "box", *chosen, cwd=work)
        everyday(work)
    assert not mark.exists(), mark.read_text()
    assert snapshot(installation.workspace / "library") == beside
    assert sorted(os.listdir(installation.workspace)) == ["library", "project"]


@pytest.mark.parametrize("name", ATTACKS)
def test_in_a_plain_copy_the_same_attack_runs(twin: Path, tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    evil, mark = program(tmp_path / "programs")
    work = tmp_path / "project"
    shutil.copytree(twin, work, symlinks=True)
    subprocess.run(["sh", "-c", words(attack.script, evil)], cwd=work, env=ENV, capture_output=True, check=True)
    mark.unlink(missing_ok=True)
    everyday(work / attack.enter)
    assert mark.exists(), "the attack is not live, so its denial proves nothing"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("twin"))


@pytest.mark.parametrize("mode", MODES)
def test_objects_that_a_box_borrows_are_not_the_hosts(installation: Installation, tmp_path: Path, mode: str) -> None:
    script = "git init -q o; oid=$(echo x | git -C o hash-object -w --stdin); echo $PWD/o/.git/objects"
    script += " >> .git/objects/info/alternates; echo $oid"
    work = make_repository(installation.workspace / "project")
    ran = installation.cli("run", *MODES[mode], "--name", "box", "--", "sh", "-c", script, cwd=work)
    oid = ran.stdout.decode().strip()
    assert len(oid) == 40, ran.stderr
    installation.cli("git", "box", "fetch", cwd=work)
    assert subprocess.run(["git", "cat-file", "-e", oid], cwd=work, env=ENV, check=False).returncode
    plain = make_repository(tmp_path / "plain")
    subprocess.run(["sh", "-c", script], cwd=plain, env=ENV, capture_output=True, check=True)
    assert subprocess.run(["git", "cat-file", "-e", oid], cwd=plain, env=ENV, check=False).returncode == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_hidden_file_that_is_committed_is_told(installation: Installation, mode: str) -> None:
    """Git's history is in every box, and so is what it has of the file."""
    work = make_repository(installation.workspace / "project")
    (work / "private").write_text("nowhere else")
    script = "cat file private dir/inner; git show HEAD:file"
    masks = [word for path in ("file", "private", "dir") for word in ("--mask", path)]
    done = installation.cli("run", *MODES[mode], *masks, "--", "sh", "-c", script, cwd=work)
    told = [line for line in done.stderr.decode().splitlines() if "is hidden, but committed" in line]
    assert [line.split()[1] for line in told] == ["file", "dir"]
    assert done.stdout == b"one\n", "the mask holds, and history is as it is"

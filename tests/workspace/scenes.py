"""Repositories of a host, and a box's view of one: the mounts we ask for, made with plain binds in new namespaces."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.engines.process import kernel
from paddock.workspace import closed, gitdir, home, hostrefs, nested, repository
from tests.support import namespaces

if TYPE_CHECKING:
    from paddock.model import Mount
    from paddock.workspace.home import Homecoming

ENV = {
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "host"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "host@example.com"),
}


def git(where: Path, *words: str, check: bool = True) -> str:
    """Host git as its owner has it; a home without files, and local clones allowed."""
    env = {**ENV, "HOME": os.fspath(where.parent), "GIT_ALLOW_PROTOCOL": "file"}
    done = subprocess.run(["git", *words], cwd=where, env=env, capture_output=True, check=False)
    said = done.stdout.decode("utf-8", "surrogateescape")
    assert not check or done.returncode == 0, f"git {words}: {done.stderr.decode('utf-8', 'replace')}"
    return said


def make_repository(place: Path, *words: str) -> Path:
    """Two commits on main, and a second branch."""
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q", "-b", "main", *words)
    commit(place, "file", "one\n")
    git(place, "branch", "other")
    commit(place, "dir/inner", "two\n")
    return place


def commit(place: Path, name: str, text: str) -> str:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)
    git(place, "add", name)
    git(place, "commit", "-q", "-m", f"change {name}")
    return git(place, "rev-parse", "HEAD").strip()


def with_submodule(tmp_path: Path) -> Path:
    """A repository `super` with a submodule checked out at libs/sub."""
    library = make_repository(tmp_path / "library")
    place = make_repository(tmp_path / "super")
    git(place, "submodule", "--quiet", "add", os.fspath(library), "libs/sub")
    git(place, "commit", "-q", "-m", "submodule")
    return place


def snapshot(place: Path) -> dict[str, str]:
    """Everything below a directory: kinds, modes and bytes. What goes while we look is not there."""
    found = {}
    for directory, names, files in os.walk(place):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, place)] = _entry(path)
    return found


def _entry(path: str) -> str:
    mode = os.lstat(path).st_mode
    data = os.readlink(path).encode() if stat.S_ISLNK(mode) else b""
    if stat.S_ISREG(mode):
        data = Path(path).read_bytes()
    return f"{mode:o} {hashlib.sha256(data).hexdigest()}"


@dataclass
class View:
    """A box on a workspace, as far as git is concerned."""

    workspace: Path
    private_dir: Path
    name: str = "box"
    user_home: Path = Path("/nonexistent")
    shown: tuple[str, ...] = ()
    guarded: bool = True
    found: repository.Repository = field(init=False)
    private: gitdir.Private = field(init=False)

    def __post_init__(self) -> None:
        self.found = repository.find(os.fspath(self.workspace))
        who = gitdir.identity(os.fspath(self.user_home), self.found)
        self.private = gitdir.make(os.fspath(self.private_dir), self.found, who=who, shown=self.shown)
        for unit in self.private.units:
            hostrefs.keep(unit, self.name)

    @property
    def unit(self) -> gitdir.Unit:
        return self.private.units[0]

    def run(self, script: str, cwd: Path | None = None) -> str:
        """What a shell script prints in the box; it fails the test unless it exits 0."""
        done = self.attempt(script, cwd)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def attempt(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        mounts = list(self.private.mounts)
        guards = closed.Guards(mounts=())
        if self.guarded:
            guards = closed.guards(
                os.fspath(self.private_dir), self.found, nested.find(os.fspath(self.workspace)).nested
            )
        mounts += guards.mounts
        try:
            return enter(mounts, script, cwd or self.workspace, self.private_dir)
        finally:
            closed.tidy(os.fspath(self.workspace), guards.placeholders)

    def bring_home(self, number: int = 0) -> Homecoming:
        """Bundle in the box, fetch on the host."""
        unit = self.private.units[number]
        home.forget_bundle(unit)
        self.run(" ".join(f"'{word}'" for word in home.bundle_argv(unit)))
        return home.fetch(unit, self.name, f"{self.private_dir}/scratch")


def enter(mounts: list[Mount], script: str, cwd: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with exactly these mounts added, under the caller's own ids and without capabilities."""
    out, err = scratch / "out", scratch / "err"
    etc = scratch / "etc"
    etc.mkdir(exist_ok=True)
    for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
        if Path("/etc", name).exists():
            shutil.copy(f"/etc/{name}", etc / name)
    (etc / "gitconfig").touch()

    def act() -> None:
        namespaces.private_mounts()
        trees = [kernel.open_tree(mount.source) for mount in mounts]  # before anything is covered
        kernel.mount("tmpfs", "/run", "tmpfs")
        kernel.mount(os.fspath(etc), "/etc", None, kernel.MS_BIND)
        for mount, tree in zip(mounts, trees, strict=True):
            _land(mount, tree)
        env = {"PATH": "/usr/bin:/bin", "HOME": os.fspath(scratch), "LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "file"}
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.chdir(cwd)
        kernel.drop_all_capabilities()
        os.execve("/bin/sh", ["sh", "-euc", script], env)

    pid = namespaces.spawn(act, namespaces.MOUNTS, as_id=os.getuid())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    texts = [file.read_text("utf-8", "surrogateescape") if file.exists() else "" for file in (out, err)]
    return subprocess.CompletedProcess(script, code, texts[0], texts[1])


def _land(mount: Mount, tree: int) -> None:
    if mount.read_only:
        kernel.set_mount(tree, kernel.ATTR_RDONLY)
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(mount.target, exist_ok=True)
    target = os.open(mount.target, os.O_PATH | os.O_NOFOLLOW)
    kernel.move_mount(tree, target)
    os.close(target)
    os.close(tree)

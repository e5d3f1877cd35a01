"""Git over HTTPS in a box that was lent a secret: no set-up, the scope of repositories, nothing for the host's git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL

TOKEN = "ghp_5f0c2a7741d94e6b9f9b17e0c3a2d84f55c1"
ALLOW = ("--allow-host", "github.com", "--allow-host", "other.example")
ME = ("-c", "user.name=a", "-c", "user.email=a@b.example")
CLONE = "git clone -q https://github.com/me/{0} /tmp/{0} && git -C /tmp/{0} log -1 --format=%s"
PUSH = (
    "git -C /tmp/x -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m more && "
    "git -C /tmp/x push -q origin HEAD:{0} && echo pushed"
)


@pytest.fixture
def forge(internet: Internet) -> Path:
    """Two repositories that want the token, on github.com of the tests' internet."""
    root = internet.root / "git"
    for name in ("x", "y"):
        bare = root / f"me/{name}.git"
        if not bare.exists():
            bare.mkdir(parents=True)
            git(bare, "init", "-q", "--bare", "-b", "main")
            git(bare, "config", "http.receivepack", "true")
            tree = git(bare, "hash-object", "-w", "-t", "tree", "/dev/null").strip()
            made = git(bare, *ME, "commit-tree", "-m", f"first of {name}", tree).strip()
            git(bare, "update-ref", "refs/heads/main", made)
    (root / "key").write_text(TOKEN)
    return root


def git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout


def branches(forge: Path, name: str = "x") -> list[str]:
    return git(forge / f"me/{name}.git", "branch", "--format=%(refname:short)").split()


def lend(online: Online, *words: str) -> None:
    online.cli("secret", "rm", "github")  # of another test, with a scope of its own
    done = online.cli("secret", "set", "github", *words, stdin=TOKEN.encode())
    assert done.returncode == 0, done.stderr


def from_outside(internet: Internet, place: Path, token: str) -> subprocess.CompletedProcess[bytes]:
    """The oracle: whoever has the token clones and pushes."""
    script = f"""
        export GIT_TERMINAL_PROMPT=0 HOME={place}
        git clone -q https://x-access-token:{token}@github.com/me/y {place}/y && cd {place}/y &&
        git {" ".join(ME)} commit -q --allow-empty -m outside && git push -q origin HEAD:outside
    """
    return internet.run(["sh", "-c", script])


def test_git_in_a_box_clones_and_pushes_with_a_token_that_it_never_has(online: Online, forge: Path) -> None:
    script = f"{CLONE.format('x')}; {CLONE.format('y')}; {PUSH.format('free')}; git config -l; env"
    refused = online.cli("run", *ALLOW, "--", "sh", "-c", f"GIT_TERMINAL_PROMPT=0 {CLONE.format('x')}")
    assert b"could not read Username" in refused.stderr
    lend(online)
    done = online.cli("run", "--secret", "github", *ALLOW, "--", "sh", "-c", script)
    assert done.stdout.splitlines()[:3] == [b"first of x", b"first of y", b"pushed"], done.stderr
    assert "free" in branches(forge)
    variables = dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)
    assert variables["GH_TOKEN"] == variables["GITHUB_TOKEN"]
    assert variables["GH_TOKEN"].startswith("ghp_")
    assert TOKEN not in done.stdout.decode()


def test_git_in_a_box_is_held_to_the_repositories_of_its_secret(
    online: Online, forge: Path, internet: Internet, tmp_path: Path
) -> None:
    assert from_outside(internet, tmp_path, "ghp_wrong").returncode != 0
    assert from_outside(internet, tmp_path, TOKEN).returncode == 0
    assert "outside" in branches(forge, "y")
    lend(online, "--repo", "me/x")
    script = f"{CLONE.format('x')}; {CLONE.format('y')}; {PUSH.format('mine')}"
    writing = online.cli("run", "--secret", "github", *ALLOW, "--", "sh", "-c", script)
    assert writing.stdout == b"first of x\npushed\n", writing.stderr
    assert b"secret 'github' is not for this request" in writing.stderr
    assert b"it is limited to me/x (read and write)" in writing.stderr
    script = f"{CLONE.format('x')}; {PUSH.format('nobody')}"
    reading = online.cli("run", "--secret", "github:ro", *ALLOW, "--", "sh", "-c", script)
    assert reading.stdout == b"first of x\n", reading.stderr
    assert b"it is limited to me/x (read only)" in reading.stderr
    assert ("mine" in branches(forge), "nobody" in branches(forge)) == (True, False)


def test_the_helper_answers_for_the_hosts_of_the_secret_and_no_git_of_the_host_has_it(
    online: Online, forge: Path
) -> None:
    project = online.workspace / "project"
    project.mkdir()
    git(project, "init", "-q")
    git(project, *ME, "commit", "-q", "--allow-empty", "-m", "one")
    before = (project / ".git/config").read_text()
    lend(online)
    ask = "printf 'protocol=%s\\nhost=%s\\n{2}\\n' {0} {1} | GIT_TERMINAL_PROMPT=0 git credential fill 2>&1; echo $?"
    script = "; ".join(
        [
            "echo $GH_TOKEN",
            ask.format("https", "github.com", ""),
            ask.format("https", "github.com", "username=me\\n"),
            *(ask.format(*place, "") for place in (("http", "github.com"), ("https", "other.example"))),
            ask.format("https", "github.com.other.example", ""),
            "git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m two",
        ]
    )
    words = ("run", "--name", "kept", "--secret", "github", *ALLOW, "shell", str(project))
    done = online.cli(*words, "--", "-c", script)
    placeholder, *lines = done.stdout.decode().splitlines()
    answer = ["protocol=https", "host=github.com", "username=x-access-token", f"password={placeholder}", "0"]
    assert lines[:5] == answer
    assert lines[5:10] == [line.replace("x-access-token", "me") for line in answer]
    assert [line for line in lines[10:] if line.startswith("password")] == []
    assert lines[10:].count("128") == 3
    assert (project / ".git/config").read_text() == before
    assert "two" in git(project, "log", "--all", "--format=%s").split()  # it came home, by the host's git
    asked = subprocess.run(
        ["git", "config", "--get-regexp", "credential|PADDOCK"], cwd=project, capture_output=True, check=False
    )
    assert b"PADDOCK" not in asked.stdout

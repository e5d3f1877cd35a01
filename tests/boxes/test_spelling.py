"""On a file system that ignores case nothing that is closed to a box opens by another spelling of its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import caseless

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.caseless import Ordinary

pytestmark = [pytest.mark.box, pytest.mark.privileged]

HOOK = "#!/bin/sh\necho ran >> ../ran\n"


@pytest.fixture(scope="module")
def user() -> Iterator[Ordinary]:
    with caseless.ordinary() as installation:
        yield installation


@pytest.fixture(scope="module")
def blind(user: Ordinary) -> Iterator[Path]:
    with caseless.mounted(user.home.parent) as place:
        yield place
        user.clear()


@pytest.fixture
def project(blind: Path, user: Ordinary, request: pytest.FixtureRequest) -> Path:
    """A repository of the user's, with a file that is masked and one that is closed."""
    place = blind / str(request.node.name)[:40]
    made = user.host(
        f"mkdir {place.name} && cd {place.name} && git init -q -b main . && git config user.name Ada && "
        "git config user.email ada@example.org && echo one > file && git add file && git commit -qm one",
        cwd=blind,
    )
    assert made.returncode == 0, made.stderr
    return place


def test_a_file_that_another_spelling_would_open_is_refused_in_every_mode(project: Path, user: Ordinary) -> None:
    assert user.host("echo SECRET > .env && cat .ENV", project).stdout == b"SECRET\n", "the oracle: it ignores case"
    naive = "unshare -Urm sh -c 'mount --bind /dev/null .env && cat .env && cat .ENV'"
    assert user.host(naive, project).stdout == b"SECRET\n", "the oracle: a mount covers one spelling only"
    for mode in (["run"], ["run", "--review", "--name", "rev", "shell", "."]):
        for spelled in (".env", ".ENV", ".Env"):
            flags = [*mode[:1], "--mask", spelled, *mode[1:]]
            done = user.cli(*flags, "--", "cat", ".ENV", ".env", cwd=project)
            assert done.returncode == 2, (flags, done)
            assert b"SECRET" not in done.stdout
            assert b"cannot be closed to the box: its file system finds it by other spellings" in done.stderr
            user.clear()
    user.host("rm .env && echo 'echo hi' > .envrc", project)
    refused = user.cli("run", "--", "true", cwd=project)
    assert (refused.returncode, b".envrc cannot be closed" in refused.stderr) == (2, True)
    opened = user.cli("run", "--writable", ".envrc", "--", "sh", "-c", "echo more >> .ENVRC", cwd=project)
    assert opened.returncode == 0, opened.stderr
    assert b"more" in user.host("cat .envrc", project).stdout


def test_the_hosts_repository_is_closed_by_every_spelling(project: Path, user: Ordinary) -> None:
    before = user.host("cat .git/config .git/HEAD && ls -A .git .git/hooks", project).stdout
    attack = (
        "for git in .GIT .Git .gIT .git; do echo '[core] fsmonitor = ../evil' >> $git/config; mkdir -p $git/hooks;"
        f"printf '{HOOK}' > $git/hooks/post-commit; chmod +x $git/hooks/post-commit; echo /tmp > $git/commondir;"
        "mv $git aside; mv aside $git; done; rm -rf .GIT; true"
    )
    done = user.cli("run", "--", "sh", "-c", attack, cwd=project)
    assert done.returncode == 0, done.stderr
    assert user.host("cat .git/config .git/HEAD && ls -A .git .git/hooks", project).stdout == before
    assert user.host("git status --short && git commit -q --allow-empty -m two; ls ..", project).returncode == 0
    assert not (project.parent / "ran").exists()
    twin = user.host("git clone -q . ../twin && cd ../twin && git config core.hooksPath .GIT/hooks", project)
    assert twin.returncode == 0, twin.stderr
    planted = f"printf '{HOOK}' > .GIT/HOOKS/post-commit && chmod +x .git/hooks/post-commit"
    who = "git -c user.name=Ada -c user.email=ada@example.org commit -q --allow-empty -m x"
    ran = user.host(f"{planted} && {who}", project.parent / "twin")
    assert (project.parent / "ran").exists(), ("the oracle: without a box .GIT is .git", ran)


def test_what_the_host_would_trust_is_named_by_every_spelling(project: Path, user: Ordinary) -> None:
    script = "echo x > .ENVRC; mkdir -p .VSCode .Husky; echo '{}' > .VSCode/Tasks.JSON; echo x > .Husky/Pre-Commit"
    done = user.cli("run", "--", "sh", "-c", script, cwd=project)
    assert done.returncode == 0, done.stderr
    told = done.stderr.decode().casefold()
    assert all(name in told for name in (".envrc", ".vscode", ".husky")), told


def test_a_review_applies_nothing_to_git_by_another_spelling(project: Path, user: Ordinary) -> None:
    before = user.host("cat .git/config && ls -A .git/hooks", project).stdout
    script = (
        f"mkdir -p .GIT/hooks; printf '{HOOK}' > .GIT/hooks/post-commit; echo '[x]' >> .GIT/config; echo x > .ENVRC;"
        "echo two > File; mkdir -p Sub sub; echo 1 > Sub/x; echo 2 > sub/X; true"
    )
    made = user.cli("run", "--review", "--name", "box", "shell", ".", "--", "-c", script, cwd=project)
    assert made.returncode == 0, made.stderr
    shown = json.loads(user.cli("diff", "--json", "box", cwd=project).stdout)
    dangerous = {item["path"] for item in shown if item["dangers"]}
    assert dangerous == {".ENVRC", "Sub", "sub"}
    assert not [item for item in shown if "git" in item["path"].casefold()]
    applied = user.cli("apply", "--all", "box", cwd=project)
    assert b"danger: .ENVRC" in applied.stderr
    assert b"some file systems take it for 'sub'" in applied.stderr
    assert user.host("cat .git/config && ls -A .git/hooks", project).stdout == before
    assert set(user.host("ls -A", project).stdout.split()) == {b".git", b"file"}
    assert user.cli("apply", "box", ".ENVRC", cwd=project).returncode == 0
    assert user.host("cat .envrc", project).stdout == b"x\n", "the oracle: what is named is applied"

"""The identity that is read is the one that git tells, and where it might not be, git is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import git, gitdir, identity, repository
from paddock.workspace.gitdir import Identity
from tests.workspace.scenes import git as run_git
from tests.workspace.scenes import make_repository

if TYPE_CHECKING:
    from pathlib import Path

CERTAIN = [
    "",
    "[user]\n\tname = Plain Name\n\temail = plain@example.com\n",
    "[user]\nname=a\nname=b ; the last counts\n[user]\nemail = x@y # comment\n",
    '[User]\n\tNAME = "  quoted; # \\"name\\" "\n\temail = a\\\\b\\tc\n',
    "[user]\n\tname = Zoë Ünïcode\n\temail = z@example.com\n",
    "\ufeff[user]\r\n\tname = dos\r\n\temail = d@example.com\r\n",
    "[user]\n\tname = over \\\n  two lines\n",
    '[user "sub"]\n\tname = not this\n[user]\n\tname =\n',
    "[user] name = one line\n",
    "# only a comment",
    '[alias]\n\tx = !true\n[url "a"]\n\tinsteadOf = b\n[user]\n\tname = last',
]  # fmt: skip
LEFT_TO_GIT = [
    "[include]\n\tpath = more\n",
    '[includeIf "gitdir:/**"]\n\tpath = more\n',
    "[user]\n\tname\n",
    "[user\n\tname = broken\n",
    "[user]\n\tname = 'x\n\temail = \"unclosed\n",
]


def asked(home: Path, found: repository.Repository) -> Identity:
    return gitdir.identity(os.fspath(home), found)


@pytest.fixture
def found(tmp_path: Path) -> repository.Repository:
    return repository.find(os.fspath(make_repository(tmp_path / "work")))


@pytest.mark.parametrize("text", CERTAIN)
@pytest.mark.parametrize("place", [".gitconfig", ".config/git/config"])
def test_what_is_read_is_what_git_says(tmp_path: Path, found: repository.Repository, text: str, place: str) -> None:
    file = tmp_path / "home" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    home = tmp_path / "home"
    assert identity.read(os.fspath(home), found) == asked(home, found)


@pytest.mark.parametrize("text", LEFT_TO_GIT)
def test_what_may_mean_something_else_to_git_is_left_to_it(
    tmp_path: Path, found: repository.Repository, text: str
) -> None:
    (tmp_path / ".gitconfig").write_text(text)
    (tmp_path / "more").write_text("[user]\n\tname = More\n")
    assert identity.read(os.fspath(tmp_path), found) is None


def test_the_nearer_file_counts(tmp_path: Path, found: repository.Repository) -> None:
    (tmp_path / ".config/git").mkdir(parents=True)
    (tmp_path / ".config/git/config").write_text("[user]\n\tname = xdg\n\temail = xdg@example.com\n")
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = home\n")
    expected = Identity(name="home", email="xdg@example.com")
    for where in (found, repository.find(os.fspath(tmp_path / ".config"))):
        assert identity.read(os.fspath(tmp_path), where) == asked(tmp_path, where) == expected
    run_git(tmp_path / "work", "config", "user.name", "repository")
    expected = Identity(name="repository", email="xdg@example.com")
    assert identity.read(os.fspath(tmp_path), found) == asked(tmp_path, found) == expected
    run_git(tmp_path / "work", "config", "extensions.worktreeConfig", "true")
    assert identity.read(os.fspath(tmp_path), found) is None


def test_nothing_is_waited_for_and_nothing_large_is_read(tmp_path: Path, found: repository.Repository) -> None:
    os.mkfifo(tmp_path / ".gitconfig")
    assert identity.read(os.fspath(tmp_path), found) is None
    (tmp_path / ".gitconfig").unlink()
    (tmp_path / ".gitconfig").write_text("# long\n" * 1_000_000)
    assert identity.read(os.fspath(tmp_path), found) is None
    (tmp_path / ".gitconfig").unlink()
    (tmp_path / ".gitconfig").mkdir()
    assert identity.read(os.fspath(tmp_path), found) is None


def test_a_git_from_elsewhere_has_its_own_system_file(
    tmp_path: Path, found: repository.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert identity.read(os.fspath(tmp_path), found) is not None
    monkeypatch.setattr(git, "program", lambda: "/usr/local/bin/git")
    assert identity.read(os.fspath(tmp_path), found) is None

"""Git's configuration as text: read as git reads it, and given to a box by an allow-list."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.strategies as some
import pytest

from paddock.errors import UserError
from paddock.workspace import settings

if TYPE_CHECKING:
    from pathlib import Path


def as_git_reads(text: str, tmp_path: Path) -> list[tuple[str, str]] | None:
    """The oracle: git's own reading, None where it refuses."""
    file = tmp_path / "config"
    file.write_text(text, newline="")
    words = ["git", "config", "--file", str(file), "--no-includes", "--list", "--null"]
    done = subprocess.run(words, capture_output=True, check=False, cwd="/")
    if done.returncode:
        return None
    rows = [row.partition("\n") for row in done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]]
    return [(key, value if newline else "true") for key, newline, value in rows]


TEXTS = [
    "",
    "# comment\n; another\n",
    "[core]\n\tbare = false\n",
    "[Core]\n\tBare=false\n\tX = 1\n",
    "[core] bare = true\n[core]x=1\n",
    '[remote "Origin"]\n\turl = a b  c   \n',
    '[remote "a\\"b\\\\c"]\n\turl = x\n',
    "[branch.Main]\n\tmerge = x\n",
    '[a]\n\tb = "  spaced  " # comment\n\tc = x ; y\n\td = "x ; y"\n',
    "[a]\n\tb = one\\\n two\n",
    '[a]\n\tb = \\t\\n\\\\ \\"q\\"\n',
    "[a]\n\tb\n\tc =\n",
    "[a]\r\n\tb = c\r\n",
    "\ufeff[a]\n\tb = c\n",
    '[a]\n\tb = x"y z"w\n',
    "[include]\n\tpath = /etc/passwd\n",
]
BROKEN = ["[a\n", '[a "b]\n', '[a]\n\tb = "open\n', "[a]\n\tb = \\q\n", "[a]\n\t= 1\n", "[a]\n\t1x = 1\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_file_is_read_as_git_reads_it(tmp_path: Path, text: str) -> None:
    assert list(settings.parse(text, "config")) == as_git_reads(text, tmp_path)


@pytest.mark.parametrize("text", BROKEN)
def test_what_git_refuses_is_refused(tmp_path: Path, text: str) -> None:
    assert as_git_reads(text, tmp_path) is None
    with pytest.raises(UserError, match=r"cannot read line [123]"):
        settings.parse(text, "config")


@hypothesis.given(some.text(alphabet='ab\\"n #;=\t\n[]', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        settings.parse(f"[a]\n\tb = {text}", "config")
    except UserError:
        return


VALUES = some.text(some.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20)


@hypothesis.given(VALUES)
def test_what_is_written_reads_back(value: str) -> None:
    pairs = (("core.a", value), (f"remote.{value.replace(chr(10), '')}x.url", value))
    assert settings.parse(settings.written(pairs), "config") == pairs


@pytest.mark.parametrize("value", ['a"b\\c', "tab\there", " lead", "trail ", "#no comment", "line\nbreak", "é\u202e"])
def test_what_is_written_git_reads_back(tmp_path: Path, value: str) -> None:
    assert as_git_reads(settings.written((("remote.x y.url", value),)), tmp_path) == [("remote.x y.url", value)]


def test_the_last_of_several_counts() -> None:
    found = settings.parse("[a]\n\tb = 1\n\tb = 2\n\tc\n", "config")
    assert settings.last(found, "a.b") == "2"
    assert settings.last(found, "a.x", "none") == "none"
    assert settings.is_true(found, "a.c")
    assert not settings.is_true(found, "a.b")


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("https://example.com/a.git", "https://example.com/a.git"),
        ("https://user:token@example.com/a.git", "https://example.com/a.git"),
        ("https://token@example.com:8443/a", "https://example.com:8443/a"),
        ("https://a:b@c@example.com/x", "https://example.com/x"),
        ("https://example.com/a?private_token=x#y", "https://example.com/a"),
        ("HTTPS://u:p@Example.com", "HTTPS://Example.com"),
        ("ssh://me:secret@example.com:22/a", "ssh://git@example.com:22/a"),
        ("git@example.com:a/b.git", "git@example.com:a/b.git"),
        ("/srv/repo.git", "/srv/repo.git"),
        ("../other", "../other"),
        ("ext::sh -c evil", ""),
        ("codecommit::region://x", ""),
        ("a@b@c:d", ""),
        ("with\x1bescape", ""),
    ],
)
def test_an_address_is_given_without_its_secrets(url: str, left: str) -> None:
    assert settings.without_userinfo(url) == left
    assert settings.permitted((("remote.origin.url", url),)) == (("remote.origin.url", left),)


@pytest.mark.parametrize(
    ("key", "value", "given"),
    [
        ("core.autocrlf", "input", True),
        ("core.filemode", "false", True),
        ("core.sparsecheckout", "true", True),
        ("branch.main.merge", "refs/heads/main", True),
        ("remote.a.b.fetch", "+refs/heads/*:refs/remotes/a.b/*", True),
        ("user.email", "a@example.com", True),
        ("pull.rebase", "true", True),
        ("core.fsmonitor", "true", False),
        ("core.hookspath", "x", False),
        ("core.editor", "x", False),
        ("core.pager", "x", False),
        ("core.sshcommand", "x", False),
        ("core.worktree", "/", False),
        ("core.attributesfile", "x", False),
        ("core.excludesfile", "x", False),
        ("core.autocrlf", "true; evil $(x)", False),
        ("include.path", "x", False),
        ("includeif.gitdir:/.path", "x", False),
        ("filter.x.clean", "x", False),
        ("diff.x.textconv", "x", False),
        ("diff.external", "x", False),
        ("diff.external", "true", True),  # a word that no program of the host hides behind
        ("merge.x.driver", "x", False),
        ("alias.x", "!x", False),
        ("credential.helper", "x", False),
        ("http.extraheader", "x", False),
        ("http.https://example.com/.extraheader", "x", False),
        ("url.https://u:p@h/.insteadof", "x", False),
        ("remote.x.uploadpack", "x", False),
        ("remote.x.vcs", "x", False),
        ("remote.x.proxy", "x", False),
        ("submodule.x.update", "!evil", False),
        ("gpg.program", "x", False),
        ("user.signingkey", "x", False),
        ("user.name", "line\nbreak", False),
        ("extensions.worktreeconfig", "true", False),
        ("safe.directory", "*", False),
    ],
)
def test_a_box_is_given_only_what_cannot_name_a_program_or_a_file(key: str, value: str, given: bool) -> None:
    assert bool(settings.permitted(((key, value),))) is given

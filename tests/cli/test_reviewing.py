"""diff, apply, discard and git as words; tests/boxes/test_applying.py has what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diff", "--stat", "--json", "box"), b"two forms"),
        (("apply", "--all", "box", "file"), b"exclude each other"),
        (("apply", "--undo", "--all", "box"), b"as a whole"),
        (("apply", "--undo", "box"), b"no apply to undo"),
        (("apply", "box", "../outside"), b"is not in"),
        (("apply", "box", "/etc/passwd"), b"is not in"),
        (("apply", "box", "unchanged"), b"changed nothing at"),
        (("diff", "box", "unchanged"), b"changed nothing at"),
        (("discard", "box"), b"not confirmed"),
        (("git", "box", "push"), b"log or fetch"),
        (("diff", "nobody"), b"no box named"),
        (("run", "--review", "--clone", "--", "true"), b"exclude each other"),
        (("run", "--review", "--rm", "--", "true"), b"--rm would remove"),
        (("run", "--review", "--branch", "x", "--", "true"), b"has no branch of its own"),
        (("run", "--mask", "../x", "--", "true"), b"is not inside the workspace"),
        (("run", "--writable", "src", "--", "true"), b"does not exist"),
        (("run", "--clone", "--", "true"), b"no repository"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(
    installation: Installation, words: tuple[str, ...], said: bytes
) -> None:
    installation.cli("create", "box", "--review")
    done = installation.cli(*words)
    assert (done.returncode, said in done.stdout + done.stderr) == (2, True), done.stderr


def test_paths_are_read_from_where_the_caller_stands(installation: Installation) -> None:
    inner = installation.workspace / "inner"
    inner.mkdir()
    installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", "echo 1 > inner/a; echo 2 > b")
    names = [
        installation.cli("diff", "--names", "box", *words, cwd=cwd).stdout.decode().split()
        for words, cwd in (
            (("a",), inner),
            (("inner/a",), installation.workspace),
            ((str(inner / "a"),), installation.workspace),
            (("inner/a",), installation.home),
        )
    ]
    assert names == [["A", "inner/a"]] * 4


def test_nothing_to_show_is_said(installation: Installation) -> None:
    installation.cli("create", "box", "--review")
    assert installation.cli("diff", "box").stderr == b"no changes\n"
    assert installation.cli("diff", "--json", "box").stdout == b"[]\n"
    assert installation.cli("apply", "--all", "box").returncode == 0
    assert installation.cli("discard", "-f", "box").returncode == 0
    assert b"no commits" in installation.cli("git", "box", "log").stderr

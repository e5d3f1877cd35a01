"""--secret, and what is said of it to a person."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from paddock.cli import lending
from paddock.client import Paddock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

VALUE = "live-5f0c2a7741d94e6b9f"


def test_where_a_secret_goes_is_said_unless_nothing_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", VALUE)
    with Paddock(home=str(tmp_path)) as paddock:
        lending.of(paddock, argparse.Namespace(secret=["openai"], quiet=True))
        assert capsys.readouterr().err == ""
        lent = lending.of(paddock, argparse.Namespace(secret=["openai"]))
    assert lent.given == {"openai": VALUE}
    said = capsys.readouterr().err
    assert said.startswith("paddock: secret openai: is OPENAI_API_KEY of your shell; goes to api.openai.com")
    assert VALUE not in said


@pytest.mark.box
def test_a_box_that_exists_gets_more_secrets_and_keeps_its_placeholders(installation: Installation) -> None:
    cli, mine = installation.cli, {"OPENAI_API_KEY": VALUE, "GROQ_API_KEY": VALUE[::-1]}
    show = ("sh", "-c", "echo $OPENAI_API_KEY $GROQ_API_KEY")
    first = cli("run", "--name", "kept", "--secret", "openai", "--", *show, env=mine)
    (openai,) = first.stdout.split()
    assert b"new to" not in first.stderr
    more = cli("run", "--name", "kept", "--secret", "groq", "--", *show, env=mine)
    assert b"secret groq: new to kept; commands that start from now on have it" in more.stderr
    assert b"no value" not in more.stderr
    same, groq = more.stdout.split()
    assert (same, groq[:4]) == (openai, b"gsk_")
    again = cli("run", "--secret", "groq", "kept", "--", "-c", "echo $OPENAI_API_KEY $GROQ_API_KEY", env=mine)
    assert again.stdout.split() == [openai, groq], again.stderr
    assert b"new to" not in again.stderr
    assert cli("exec", "kept", *show, env=mine).stdout.split() == [openai, groq]
    clash = cli("run", "--secret", "mistral", "kept", "--", "-c", "true", env=mine)
    assert (clash.returncode, clash.stderr.splitlines()[0]) == (2, b"error: there is no secret 'mistral'")
    assert cli("rm", "-f", "kept").returncode == 0
    opened = cli("run", "shell", ".", "--", "-c", "true")
    assert opened.returncode == 0, opened.stderr
    agents_box = cli("run", "--secret", "groq", "shell", ".", "--", "-c", "echo $GROQ_API_KEY", env=mine)
    assert agents_box.stdout.startswith(b"gsk_")
    assert b"secret groq: new to shell-workspace" in agents_box.stderr

"""`paddock secret`, as people use it: no daemon, no value in an argument, none in what is printed."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.installation import PROGRAM, Installation
from tests.support.terminal import Person

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box

TEXT = "sk-real-0123456789"


class Caller:
    def __init__(self, root: Path) -> None:
        self.state = root / "state"
        self.environ = {"PATH": "/usr/bin:/bin", "PADDOCK_HOME": str(root), "HOME": str(root)}
        self.cwd = root

    def __call__(self, *words: str, stdin: str = "", code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [PROGRAM, "secret", *words],
            input=stdin,
            env={**self.environ, **env},
            cwd=self.cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert TEXT not in done.stdout + done.stderr
        return done


@pytest.fixture
def secret(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def test_a_value_from_standard_input_is_kept_and_its_place_is_said(secret: Caller) -> None:
    said = secret("set", "anthropic", stdin=f"{TEXT}\n").stdout
    assert said == (
        "anthropic: kept in a file that only you can read: no keyring answers; goes to api.anthropic.com; "
        "in a box as ANTHROPIC_API_KEY\n"
    )
    [value] = (secret.state / "secrets").glob("*.value")
    assert value.read_text() == TEXT
    assert [file.name for file in secret.state.iterdir()] == ["secrets"]  # no daemon was started


def test_a_person_is_asked_and_what_is_typed_is_not_shown(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with Person(installation, "secret", "set", "anthropic") as person:
        person.sees(b"value of anthropic (not shown): ")
        person.enter(TEXT)
        assert person.leaves() == 0
        assert TEXT.encode() not in person.output
        assert b"kept in" in person.output
    [value] = (installation.state / "secrets").glob("*.value")
    assert value.read_text() == TEXT


@pytest.mark.parametrize("words", [["anthropic", TEXT], [TEXT.upper()], ["anthropic", f"--value={TEXT}"]])
def test_a_value_as_a_word_is_refused_and_not_repeated(secret: Caller, words: list[str]) -> None:
    said = secret("set", *words, code=2).stderr
    assert TEXT.upper() not in said
    assert secret("ls", "-q").stdout == ""


@pytest.mark.parametrize("value", ["", "short", "two\nlines of it", "x" * 20_000, f"{TEXT}\n\n"])
def test_what_cannot_be_a_value_is_refused(secret: Caller, value: str) -> None:
    assert "the value of 'anthropic'" in secret("set", "anthropic", stdin=value, code=2).stderr
    assert secret("ls", "-q").stdout == ""


def test_secrets_are_listed_without_their_values(secret: Caller) -> None:
    secret("set", "github", "--repo", "me/a:ro", stdin=TEXT)
    secret(
        "set",
        "shop",
        "--host",
        "http://api.shop.example:8080",
        "--header",
        "X-Key",
        "--from-env",
        "MY_KEY",
        MY_KEY=TEXT,
    )
    shown = secret("ls").stdout.splitlines()
    assert shown[0].split() == ["NAME", "GOES", "TO", "IN", "A", "BOX", "VALUE", "FROM", "CHANGED"]
    assert "github.com" in shown[1]
    assert "http://api.shop.example:8080" in shown[2]
    assert "env MY_KEY" in shown[2]
    assert secret("ls", "-q").stdout.split() == ["github", "shop"]
    first, second = json.loads(secret("ls", "--json").stdout)
    assert first["binding"]["git"] == {"repos": ["me/a"], "write": False}
    assert (second["source"]["kind"], second["source"]["words"]) == ("env", ["MY_KEY"])
    assert second["binding"]["headers"] == ["x-key"]


def test_setting_it_again_keeps_where_it_may_go_unless_more_is_said(secret: Caller) -> None:
    secret("set", "github", "--repo", "me/a:ro", stdin=TEXT)
    assert "git reading me/a only" in secret("set", "github", stdin="another-value").stdout
    assert "git me/b only" in secret("set", "github", "--repo", "me/b", stdin=TEXT).stdout
    assert "api.github.com" in secret("set", "github", "--host", "api.github.com", stdin=TEXT).stdout


def test_a_value_is_checked_without_being_shown(secret: Caller) -> None:
    key = secret.cwd / "key"
    key.write_text(TEXT)
    secret("set", "anthropic", stdin=TEXT)
    secret("set", "openai", "--file", "key")
    secret("set", "github", "--from-command", f"echo {TEXT}")
    assert [line.split()[:2] for line in secret("check").stdout.splitlines()[1:]] == [
        ["anthropic", "ok"],
        ["github", "ok"],
        ["openai", "ok"],
    ]
    key.unlink()
    said = secret("check", "openai", "github", code=1).stdout.splitlines()
    assert said[1].split()[:2] == ["openai", "missing"]
    assert "cannot read" in said[1]
    assert said[2].split()[:2] == ["github", "ok"]
    problems = {item["name"]: item["problem"] for item in json.loads(secret("check", "--json", code=1).stdout)}
    assert [name for name, problem in problems.items() if problem] == ["openai"]
    assert "there is no secret 'npm'" in secret("check", "npm", code=2).stderr


def test_a_source_that_gives_nothing_is_kept_with_a_warning(secret: Caller) -> None:
    assert (
        "warning: no value for the secret 'github': MY_KEY is not set"
        in secret("set", "github", "--from-env", "MY_KEY").stderr
    )
    assert secret("ls", "-q").stdout.split() == ["github"]


def test_a_removed_secret_leaves_nothing(secret: Caller) -> None:
    secret("set", "anthropic", stdin=TEXT)
    secret("set", "github", stdin=TEXT)
    secret("rm", "anthropic", "github")
    assert [file.name for file in (secret.state / "secrets").iterdir()] == ["lock"]
    assert "there is no secret" in secret("rm", "github", code=2).stderr
    assert "no secrets" in secret("ls").stderr
    assert "no secrets" in secret("check").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shop"], "nothing says where 'shop' may go"),
        (["shop", "--host", "*"], "every host"),
        (["github", "--repo", "nothing"], "not a repository"),
        (["github", "--from-env", "A", "--file", "b"], "two sources"),
        (["github", "--from-command", "no-such-program"], "no program"),
        (["Bad Name"], "not a name"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_value_is_asked_for(
    secret: Caller, words: list[str], said: str
) -> None:
    assert said in secret("set", *words, stdin=TEXT, code=2).stderr
    assert secret("ls", "-q").stdout == ""


def test_a_damaged_record_does_not_hide_the_others(secret: Caller) -> None:
    secret("set", "anthropic", stdin=TEXT)
    secret("set", "github", stdin=TEXT)
    (secret.state / "secrets" / "anthropic.json").write_text("{")
    done = secret("ls")
    assert "anthropic.json is damaged" in done.stderr
    assert "github" in done.stdout
    secret("rm", "anthropic")
    assert secret("ls", "-q").stdout.split() == ["github"]

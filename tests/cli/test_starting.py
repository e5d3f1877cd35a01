"""run, by one request and step by step: which runs go which way, and that nobody can tell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from paddock import codec, paths
from paddock.cli import parser, starting
from paddock.runtime.starts import Wanted
from tests.support import tools
from tests.support.installation import ROOT
from tests.support.terminal import Person

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation

STEPS = ("--env-file", "/dev/null")  # says nothing, and is not for one request
VOLATILE = {"id", "pid", "created_at", "limits"}
KEY = "sk-ant-api03-" + "k" * 40
STAND_IN = """case "$1" in
--version) echo 2.1.325; exit;;
--help) echo ' -p --dangerously-skip-permissions --model --continue --resume --output-format --verbose --'; exit;;
esac
for word; do echo "[$word]"; done
test -t 0 || cat
env | grep -E '^(MINE|LANG|LC_|TERM|EDITOR|SECRET_OF_MINE)' | sort
echo "oh" >&2
test "$*" = "${*%fail}" || exit 7"""


def _asked(*words: str, where: Path) -> object:
    _, options = parser.parse(["run", *words])
    return starting.asked(options, paths.Paths({"PADDOCK_HOME": str(where)}))


@pytest.mark.parametrize(
    "words",
    [
        ("claude",),
        ("claude", ".", "--", "x"),
        ("-q", "--name", "kept", "claude", "/srv", "--", "--continue", "x"),
        ("--ask", "--model", "big", "--json", "claude", "--", "x"),
        ("shell", ".", "--", "-c", "true"),
    ],
)
def test_a_plain_run_is_asked_for_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    wire = _asked(*words, where=tmp_path)
    wanted = codec.from_wire(Wanted, wire)
    assert wanted.request.agent in {"claude", "shell"}
    assert wanted.request.workspace.startswith("/")
    assert (wanted.request.env, wanted.request.secrets) == ({}, ())


@pytest.mark.parametrize(
    "words",
    [
        ("--", "true"),
        ("claude", ".", "/srv:ro"),
        ("-d", "claude", "--", "x"),
        ("--rm", "claude"),
        ("-e", "A=b", "claude"),
        ("--env-file", "/dev/null", "claude"),
        ("--review", "claude"),
        ("--secret", "github", "claude"),
        ("--allow-host", "a.test", "claude"),
        ("--agent-file", "x.toml", "."),
        ("--prompt-file", "x", "claude"),
        ("--timeout", "5s", "claude"),
        ("--stuck-after", "never", "claude"),
        ("--engine", "microvm", "claude"),
        ("-w", "/", "claude"),
        ("--max-cost", "1", "claude"),
        ("claude", "--", "x" * 200_000),
        ("mine", "."),
    ],
)
def test_every_other_run_goes_step_by_step(tmp_path: Path, words: tuple[str, ...]) -> None:
    tools.define(tmp_path / "config", "mine")
    assert _asked(*words, where=tmp_path) is None


def test_a_directory_that_is_gone_is_for_the_steps_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert _asked("claude", where=tmp_path) is None


def test_of_our_environment_only_what_any_run_sends_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("SECRET_OF_MINE", "s3cret")
    monkeypatch.setenv("TZ", "Europe/Oslo")
    wire = _asked("claude", "--", "x", where=tmp_path)
    assert "Europe/Oslo" in str(wire)
    assert KEY not in str(wire)
    assert "s3cret" not in str(wire)


# -- both ways ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    code: int
    stdout: str
    stderr: str
    boxes: object
    runs: object


@pytest.fixture
def stable(installation: Installation) -> Iterator[Installation]:
    """With a program that stands in for claude, and was asked what it takes."""
    tools.publish(installation.state, "2.1.325", STAND_IN, name="claude", package="@anthropic-ai/claude-code")
    assert installation.cli("agent", "check", "claude").returncode in {0, 1}
    yield installation
    installation.cli("reset", "-f")
    for words in (("secret", "rm", "anthropic"), ("agent", "rm", "claude")):
        installation.cli(*words)


def _steady(text: str) -> str:
    """Without what differs between any two runs."""
    return re.sub(r"\b[0-9a-f]{8,12}\b|[0-9]+(\.[0-9]+)? ?m?s\b", "*", text)


def _outcome(installation: Installation, words: tuple[str, ...], stdin: bytes) -> Outcome:
    env = {"SECRET_OF_MINE": "s3cret", "LANG": "C.UTF-8"}
    done = installation.cli("run", *words, stdin=stdin, env=env)
    rows = json.loads(installation.cli("ls", "--json").stdout)
    runs = json.loads(installation.cli("runs", "--json", "--limit", "1").stdout) if rows else []
    found = Outcome(
        code=done.returncode,
        stdout=_steady(done.stdout.decode()),
        stderr=_steady(done.stderr.decode()),
        boxes=[{key: value for key, value in row.items() if key not in VOLATILE} for row in rows],
        runs=[{key: row[key] for key in ("agent", "version", "mode", "prompt_sha256", "reason")} for row in runs],
    )
    assert installation.cli("reset", "-f").returncode == 0
    return found


def _set_key(installation: Installation) -> None:
    assert installation.cli("secret", "set", "anthropic", stdin=KEY.encode()).returncode == 0


@pytest.mark.box
@pytest.mark.parametrize(
    ("words", "stdin", "code", "says"),
    [
        (("claude", ".", "--", "do it"), b"not for it", 0, "[do it]"),
        (("claude",), b"from a pipe\n", 0, "[from a pipe]"),
        (("claude", ".", "--", "-"), b"two\nlines\n", 0, "[two\nlines]"),
        (("claude", "--", "--dsp", "--yolo", "--max-turns", "3", "--continue", "x"), b"", 0, "[--max-turns]\n[3]"),
        (("--ask", "--model", "big", "--name", "other", "claude", "--", "x"), b"", 0, "[--model]\n[big]"),
        (("--json", "claude", "--", "x"), b"", 0, "[stream-json]"),
        (("claude", "--", "x fail"), b"", 7, "[x fail]"),
        (("-q", "shell", ".", "--", "-c", "cat; exit 3"), b"read", 3, "read"),
        (("claude", ".", "--", ""), b"", 2, "the prompt is empty"),
        (("claude", "."), b"", 2, "there is no prompt"),
        (("claude", "--", "one", "two"), b"", 2, "2 words are left for a prompt"),
        (("cluade", ".", "--", "x"), b"", 2, "there is no agent and no box 'cluade'"),
        (("--json", "shell"), b"", 2, "--json is for agents, and shell is none"),
        (("claude", "no-such-directory", "--", "x"), b"", 2, "no-such-directory"),
        (("--name", "No Name", "claude", "--", "x"), b"", 2, "No Name"),
        (("codex", "--", "x"), b"", 2, "codex has no key"),
    ],
)
def test_both_ways_print_and_leave_the_same(
    stable: Installation, words: tuple[str, ...], stdin: bytes, code: int, says: str
) -> None:
    _set_key(stable)
    once = _outcome(stable, words, stdin)
    assert (once.code, says in once.stdout + once.stderr) == (code, True), once
    assert "s3cret" not in once.stdout
    assert once == _outcome(stable, (*STEPS, *words), stdin)


@pytest.mark.box
def test_both_ways_find_the_box_that_is_there(stable: Installation) -> None:
    _set_key(stable)
    found = []
    for more in ((), STEPS):
        first = stable.cli("run", *more, "claude", ".", "--", "one")
        again = stable.cli("run", *more, "claude", ".", "--", "two")
        named = stable.cli("run", *more, "claude-workspace", "--", "three")
        other = stable.cli("run", *more, "--name", "claude-workspace", "shell", ".", "--", "-c", "true")
        all_four = (first, again, named, other)
        found.append([(done.returncode, _steady((done.stdout + done.stderr).decode())) for done in all_four])
        assert stable.cli("ls", "-q").stdout == b"claude-workspace\n"
        assert stable.cli("reset", "-f").returncode == 0
    assert found[0] == found[1]
    assert [code for code, _ in found[0]] == [0, 0, 0, 2]


@pytest.mark.box
def test_a_key_that_is_new_to_a_box_or_missing_is_said_both_ways(stable: Installation) -> None:
    found = []
    for more in ((), STEPS):
        missing = stable.cli("run", *more, "claude", ".", "--", "x")
        assert (missing.returncode, b"claude has no key" in missing.stderr) == (2, True)
        shells = stable.cli("run", *more, "claude", ".", "--", "x", env={"ANTHROPIC_API_KEY": KEY})
        assert b"is ANTHROPIC_API_KEY of your shell" in shells.stderr
        _set_key(stable)
        stored = stable.cli("run", *more, "claude", ".", "--", "x")
        assert b"secret anthropic: goes to api.anthropic.com" in stored.stderr
        found.append([_steady(done.stderr.decode()) for done in (missing, shells, stored)])
        assert stable.cli("reset", "-f").returncode == 0
        assert stable.cli("secret", "rm", "anthropic").returncode == 0
    assert found[0] == found[1]


@pytest.mark.box
def test_a_run_by_one_request_loads_none_of_the_steps(stable: Installation) -> None:
    _set_key(stable)

    def loaded(*words: str) -> set[str]:
        start = [sys.executable, "-I", "-S", "-X", "importtime", str(ROOT / "src/paddock/__main__.py"), "run", *words]
        done = subprocess.run(
            start, cwd=stable.workspace, env=stable.environ, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}

    steps = {"paddock.cli.agentruns", "paddock.cli.opening", "paddock.cli.lending", "paddock.secrets.store"}
    assert steps <= loaded(*STEPS, "claude", "--", "x")
    assert loaded("-q", "claude", "--", "x") & steps == set()


@pytest.mark.box
def test_at_a_terminal_it_is_interactive_and_found_again(stable: Installation) -> None:
    _set_key(stable)
    seen = []
    for more in ((), STEPS):
        with Person(stable, "run", *more, "claude", ".", "--", "begin") as person:
            person.sees(b"[--dangerously-skip-permissions]")
            person.sees(b"[begin]")
            person.sees(b"TERM=")
            seen.append(person.leaves())
        assert stable.cli("reset", "-f").returncode == 0
    assert seen == [0, 0]

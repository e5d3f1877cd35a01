"""What is right inside for whoever works there: editor, locale, time zone, terminal, pages, the name on a commit."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until
from tests.support.terminal import COLS, ROWS, Person
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
CALLER = {
    "EDITOR": "sed -i",
    "VISUAL": "no-such-editor",
    "PAGER": "more",
    "LANG": "C.UTF-8",
    "LC_TIME": "C",
    "LC_MESSAGES": "C",
    "TZ": "America/New_York",
    "COLORTERM": "truecolor",
    "TERM": "xterm-256color",
}
SHOW = """
for name in EDITOR VISUAL LANG LC_TIME LC_MESSAGES TZ COLORTERM TERM PAGER GIT_PAGER; do
  eval "echo $name=\\$$name"
done
date -d @0 +%H:%M; stty size 2>/dev/null || echo no terminal
"""
WITHOUT_TERMINAL = {"EDITOR": "", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
EPOCH = "19:00"  # there


def seen(output: bytes) -> tuple[dict[str, str], list[str]]:
    lines = output.decode().replace("\r", "").split("\n")
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    return pairs, [line for line in lines if line and "=" not in line]


def expected(**other: str) -> dict[str, str]:
    return {**CALLER, "VISUAL": "", "PAGER": "", "GIT_PAGER": "", **other}


def test_a_command_on_a_terminal_has_what_its_caller_has(installation: Installation) -> None:
    installation.cli("create", "box")
    for words in (("run", "-q", "--"), ("exec", "-t", "box")):
        with Person(installation, *words, "sh", "-c", SHOW, env=CALLER) as someone:
            assert someone.leaves() == 0
            pairs, lines = seen(someone.output)
            assert pairs == expected(), words
            assert lines[:2] == [EPOCH, f"{ROWS} {COLS}"]


def test_a_command_without_one_waits_for_no_person(installation: Installation) -> None:
    installation.cli("create", "box")
    for words in (("run", "--"), ("exec", "box")):
        done = installation.cli(*words, "sh", "-c", SHOW, env=CALLER)
        pairs, lines = seen(done.stdout)
        assert pairs == expected(**WITHOUT_TERMINAL), words
        assert lines == [EPOCH, "no terminal"]
    job = installation.cli("exec", "-d", "box", "sh", "-c", SHOW, env=CALLER).stdout.decode().strip()
    until(lambda: b"no terminal" in installation.cli("logs", job).stdout, "the job wrote all of it")
    assert seen(installation.cli("logs", job).stdout)[0] == expected(**WITHOUT_TERMINAL)


def test_git_turns_no_pages_where_an_agent_gives_it_a_terminal(installation: Installation) -> None:
    """As agents do: a headless one runs its commands on a terminal of its own making."""
    make_repository(installation.workspace / "repo")
    log = 'python3 -c \'import pty, sys; sys.exit(pty.spawn(["git", "-C", "repo", "log", "-p"]))\''
    done = installation.cli("run", "--", "sh", "-c", f"TERM=xterm {log}", timeout_s=30)
    assert (done.returncode, b"Author" in done.stdout) == (0, True)


@pytest.mark.parametrize("mode", ["live", "review", "clone", "none"])
def test_commits_have_their_users_name_in_every_mode(installation: Installation, mode: str) -> None:
    place = installation.workspace / "repo"
    if mode == "none":
        place.mkdir()
    else:
        make_repository(place)
        git(place, "config", "user.name", "Some Body")
        git(place, "config", "user.email", "some@example.com")
    words = ["git", "-C", str(place), "config", "user.name"]
    asked = subprocess.run(words, capture_output=True, env=installation.environ, check=False).stdout.decode().strip()
    options = [f"--{mode}"] if mode in {"review", "clone"} else []
    commit = "git commit -q --allow-empty -m x && git log -1 --format=%an"
    script = f"cd {place} && git config user.name; cd /tmp && git init -q t && cd t && git config user.name"
    if mode != "none":
        script = f"cd {place} && {commit}; " + script
    done = installation.cli("run", "--name", "box", *options, "--", "sh", "-c", script, cwd=place)
    assert asked == "Some Body" or mode == "none"
    assert set(done.stdout.decode().split("\n")) - {""} == ({asked} if asked else set())


def test_gh_needs_no_more_than_the_secret(installation: Installation) -> None:
    env = {"GH_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef"}
    shown = "echo $GH_TOKEN; env | grep -c ^GH_; git config --get-all credential.helper | head -1"
    done = installation.cli("run", "-q", "--secret", "github", "--", "sh", "-c", shown, env=env)
    token, count, helper = done.stdout.decode().splitlines()
    assert token.startswith("ghp_")
    assert token != env["GH_TOKEN"]
    assert (count, bool(helper)) == ("1", True)

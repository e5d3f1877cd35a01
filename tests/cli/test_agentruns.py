"""run AGENT: its own command line in a box that is found again, and what is refused before anything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import contract, scripted
from tests.support.terminal import DETACH, Person

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
SHOW = 'for word; do echo "[$word]"; done; echo "MINE=$MINE"; cat ~/.mine/config.json; test ! -t 0 && cat; exit 3'


def test_a_prompt_runs_an_agent_headless_with_full_permissions_and_its_box_is_found_again(
    installation: Installation,
) -> None:
    file = str(scripted.install(installation.workspace, SHOW))
    done = installation.cli("run", "--agent-file", file, ".", "--", "--dsp", "--depth", "3", "-x", "do it", stdin=b"no")
    assert done.returncode == 3, done.stderr
    words, _, rest = done.stdout.decode().partition("MINE=its own\n")
    assert words.split("\n") == ["[exec]", "[--all]", "[--depth]", "[3]", "[-x]", "[--]", "[do it]", ""]
    assert json.loads(rest) == {"trusted": {str(installation.workspace): True}}, "and it was given no other input"
    assert installation.cli("ls", "-q").stdout == b"mine-workspace\n"
    for words_of, seen in (
        (("--", "--continue", "more"), "[exec] [--all] [--again] [--] [more]"),
        (("--", "--resume", "s1", "more"), "[exec] [--all] [--session] [s1] [--] [more]"),
        (("--ask", "--model", "big", "--", "p"), "[exec] [--careful] [--model] [big] [--] [p]"),
        (("--json", "--", "p"), "[exec] [--all] [--events] [--] [p]"),
    ):
        again = installation.cli("run", "mine-workspace", *words_of)
        assert again.stdout.decode().split("MINE")[0].split() == seen.split(), again.stderr
    same = installation.cli("run", "--agent-file", file, "--", "p")
    assert same.returncode == 3, same.stderr
    assert installation.cli("ls", "-q").stdout == b"mine-workspace\n"


def test_a_prompt_comes_from_a_file_or_standard_input_and_an_empty_one_is_refused(installation: Installation) -> None:
    file = str(scripted.install(installation.workspace, 'for last; do :; done; echo "$last"'))
    (installation.workspace / "task").write_text("from a file\n")
    run = ("run", "--agent-file", file)
    assert installation.cli(*run, "--prompt-file", "task").stdout == b"from a file\n"
    assert installation.cli(*run, stdin=b"from a pipe\n").stdout == b"from a pipe\n"
    assert installation.cli(*run, "--", "-", stdin=b"two\nlines\n").stdout == b"two\nlines\n"
    for words, stdin, why in (
        ((), b"", "there is no prompt"),
        (("--", ""), b"", "the prompt is empty"),
        (("--", " \n"), b"", "the prompt is empty"),
        (("--prompt-file", "task", "--", "p"), b"", "two prompts"),
        (("--prompt-file", "none"), b"", "cannot read the prompt"),
        (("-d",), b"from a pipe", "there is no prompt"),
        (("--", "one", "two"), b"", "2 words are left for a prompt"),
    ):
        done = installation.cli(*run, *words, stdin=stdin)
        assert (done.returncode, done.stdout) == (2, b"")
        assert why in done.stderr.decode().splitlines()[0]


def test_an_agent_at_a_terminal_is_interactive_and_waits_for_its_user(installation: Installation) -> None:
    script = 'echo "words: $*"; while read line; do echo "heard $line"; test "$line" = end && exit 0; done'
    file = str(scripted.install(installation.workspace, script))
    with Person(installation, "run", "--agent-file", file, "--", "begin") as terminal:
        terminal.sees(b"words: --all -- begin")
        terminal.enter("one")
        terminal.sees(b"heard one")
        terminal.type(DETACH)
        terminal.sees(b"detached; `paddock run mine-workspace` returns")
        assert terminal.leaves() == 0
    with Person(installation, "run", "mine-workspace") as terminal:
        terminal.enter("two")
        terminal.sees(b"heard two")
        terminal.enter("end")
        assert terminal.leaves() == 0


def test_who_is_no_agent_is_told_the_nearest_and_no_key_is_said_before_anything_runs(
    installation: Installation,
) -> None:
    near = installation.cli("run", "cluade", ".", "--", "x").stderr.decode()
    assert "error: there is no agent and no box 'cluade'\nhint: did you mean 'claude'? agents: cagent," in near
    done = installation.cli("run", "claude", ".", "--", "x")
    assert done.returncode == 2
    error, hint = done.stderr.decode().splitlines()
    assert error.startswith("error: claude has no key: there is no secret 'claude' or 'anthropic', and neither ")
    assert hint.startswith("hint: `paddock secret login claude`, or `paddock secret set anthropic`, or `--allow-login")
    assert installation.cli("ls", "-q").stdout == b"", "no box was made"


def test_a_key_that_is_there_is_lent_by_itself_and_the_agents_hosts_are_open(installation: Installation) -> None:
    more = '[keys]\nany = ["openai", "groq"]\n[hosts]\nallow = ["api.mine.test"]\ntelemetry = ["spy.mine.test"]\n'
    file = str(scripted.install(installation.workspace, "env | grep _API_KEY | cut -c1-18", more))
    mine = {"GROQ_API_KEY": "gsk_" + "x" * 30}
    done = installation.cli("run", "--agent-file", file, "--", "p", env=mine)
    assert done.stdout.startswith(b"GROQ_API_KEY=gsk_"), done.stderr
    assert b"xxxx" not in done.stdout, "a placeholder"
    assert b"secret groq: is GROQ_API_KEY of your shell; goes to api.groq.com" in done.stderr
    rules = json.loads(installation.cli("policy", "show", "--json", "mine-workspace").stdout)
    said = {(rule["action"], rule["pattern"]) for layer in rules["layers"] for rule in layer["rules"]}
    assert said == {("allow", "api.mine.test"), ("deny", "spy.mine.test")}
    again = installation.cli("run", "mine-workspace", "--", "p", env=mine)
    assert (again.stdout, again.stderr.count(b"secret groq")) == (done.stdout, 0)


def test_a_changed_definition_changes_the_box(installation: Installation) -> None:
    file = scripted.install(installation.workspace, 'echo "$MINE $*"')
    assert installation.cli("run", "--agent-file", str(file), "--", "p").stdout == b"its own exec --all -- p\n"
    text = file.read_text().replace("its own", "new").replace("--all", "--more")
    file.write_text(f'{text}[hosts]\nallow = ["api.mine.test"]\n')
    assert installation.cli("run", "--agent-file", str(file), "--", "p").stdout == b"new exec --more -- p\n"
    assert b"api.mine.test" in installation.cli("policy", "show", "mine-workspace").stdout
    file.write_text("name = 1\n")
    broken = installation.cli("run", "--agent-file", str(file), "--", "p")
    assert (broken.returncode, broken.stderr.startswith(b"error: missing key 'title' in ")) == (2, True)
    assert installation.cli("run", "mine-workspace", "--", "p").stdout == b"new exec --more -- p\n"


@pytest.mark.parametrize("flag", ["--ask", "--json", "--model=x", "--prompt-file=x"])
def test_words_for_agents_are_refused_for_a_shell(installation: Installation, flag: str) -> None:
    done = installation.cli("run", flag, "shell", ".", "--", "-c", "true")
    assert (done.returncode, b"is for agents, and shell is none" in done.stderr) == (2, True)


def test_a_definition_that_a_box_could_change_is_refused(installation: Installation) -> None:
    file = scripted.install(installation.workspace, "echo ran")
    assert installation.cli("run", "--agent-file", str(file), "--", "p").stdout == b"ran\n", "beside it, it is taken"
    inside = file.rename(installation.workspace / "mine.toml")
    (installation.workspace / "link").symlink_to(inside)
    outside = file.with_name("linked.toml")
    outside.symlink_to(inside)
    for path in (inside, installation.workspace / "link", outside):
        done = installation.cli("run", "--agent-file", str(path), "--", "p")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"where a box could change it" in done.stderr
    outside.unlink()
    other = file.with_name("another")
    other.mkdir()
    elsewhere = installation.cli("run", "--agent-file", str(inside), str(other), "--", "p")
    assert b"where a box could change it" in elsewhere.stderr, "the box of the other directory still is there"
    assert installation.cli("rm", "-f", "mine-workspace").returncode == 0
    gone = installation.cli("run", "--agent-file", str(inside), str(other), "--", "p")
    assert b"could change it" not in gone.stderr
    assert installation.cli("rm", "-f", "mine-another").returncode == 0
    other.rmdir()


def test_an_agent_that_is_not_there_is_said_with_what_installs_it(installation: Installation) -> None:
    file = scripted.install(installation.workspace, "true", '[install]\nnpm = "no-such-package-of-ours"\n')
    file.write_text(file.read_text().replace(f'program = "{installation.workspace}/mine.sh"', 'program = "no-such"'))
    done = installation.cli("run", "--agent-file", str(file), "--", "p")
    assert done.returncode == 2
    error, hint = done.stderr.decode().splitlines()
    assert error == "error: an agent of the tests is not installed"
    assert hint == "hint: `paddock agent install mine`"
    assert installation.cli("ls", "-q").stdout == b"", "no box was made"
    with Person(installation, "run", "--agent-file", str(file)) as terminal:
        terminal.sees(b"Install no-such-package-of-ours for boxes? [Y/n]")
        terminal.enter("n")
        terminal.sees(b"hint: `paddock agent install mine`")
        assert terminal.leaves() == 2

"""What a user says after `--` becomes the agent's own command line."""

from __future__ import annotations

import pytest

from paddock import agents
from paddock.agents import LAST, Said, Turn
from paddock.errors import UserError

AGENT = agents.parse(
    """
name = "mine"
title = "Mine"
program = "mine"
[words]
full = ["--all"]
ask = ["--careful"]
model = ["--model={}"]
continue = ["--continue"]
resume = ["--session", "{}"]
prompt = ["--", "{}"]
json = ["--json"]
[interactive]
argv = ["{full}", "{model}", "{continue}", "{args}", "{prompt}"]
prompt = ["--start", "{}"]
[headless]
argv = ["exec", "{continue}", "{full}", "{model}", "{json}", "{args}", "{prompt}"]
continue = ["again"]
[flags]
full = ["--all", "--really-all"]
values = ["--depth", "-m"]
"""
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], Said()),
        (["fix it"], Said(prompt="fix it")),
        (["--all", "--dsp", "--yolo", "--really-all", "fix"], Said(prompt="fix")),
        (["--depth", "3", "fix"], Said(words=("--depth", "3"), prompt="fix")),
        (["--verbose", "fix"], Said(words=("--verbose",), prompt="fix")),
        (["--depth=3", "-m", "big", "--verbose"], Said(words=("--depth=3", "-m", "big", "--verbose"))),
        (["--continue"], Said(resume=LAST)),
        (["--continue", "more"], Said(prompt="more", resume=LAST)),
        (["--resume", "abc", "more"], Said(prompt="more", resume="abc")),
        (["--resume=abc"], Said(resume="abc")),
        (["--resume"], Said(words=("--resume",))),
        (["--", "--not-a-flag"], Said(prompt="--not-a-flag")),
        (["-"], Said(prompt="-")),
        ([""], Said(prompt="")),
    ],
)
def test_words_are_flags_of_the_agent_and_one_prompt(given: list[str], said: Said) -> None:
    assert agents.split(AGENT, given) == said


def test_two_words_that_could_be_the_prompt_are_refused() -> None:
    with pytest.raises(UserError, match="2 words are left for a prompt: 'mcp', 'list'") as caught:
        agents.split(AGENT, ["mcp", "list"])
    assert "paddock exec BOX mine ..." in caught.value.hint


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (Turn(), "--all"),
        (Turn(ask=True), "--careful"),
        (Turn(prompt="p"), "--all --start p"),
        (Turn(prompt="p", headless=True), "exec --all -- p"),
        (Turn(prompt="p", headless=True, ask=True, json=True), "exec --careful --json -- p"),
        (Turn(prompt="p", headless=True, model="m", words=("-v",)), "exec --all --model=m -v -- p"),
        (Turn(prompt="p", headless=True, resume=LAST), "exec again --all -- p"),
        (Turn(resume=LAST), "--all --continue"),
        (Turn(prompt="p", headless=True, resume="id"), "exec --session id --all -- p"),
    ],
)
def test_a_turn_becomes_words(turn: Turn, words: str) -> None:
    assert agents.compose(AGENT, turn) == tuple(words.split())


def test_a_prompt_is_one_word_whatever_it_holds() -> None:
    prompt = "{full} {} --all $(id)\n'\""
    assert agents.compose(AGENT, Turn(prompt=prompt, headless=True))[-1] == prompt


def test_what_an_agent_has_no_words_for_is_said() -> None:
    bare = agents.parse('name="b"\ntitle="B"\nprogram="b"\n[headless]\nargv=["{prompt}"]\n[words]\nprompt=["{}"]\n')
    for turn, why in (
        (Turn(headless=True, prompt="p", model="m"), "model of b"),
        (Turn(headless=True, prompt="p", resume=LAST), "cannot continue"),
        (Turn(headless=True, prompt="p", resume="x"), "by its id"),
        (Turn(headless=True, prompt="p", json=True), "no machine output"),
        (Turn(headless=True, prompt="p", words=("-v",)), "takes no other flags"),
        (Turn(headless=True), "there is no prompt"),
    ):
        with pytest.raises(UserError, match=why):
            agents.compose(bare, turn)
    with pytest.raises(UserError, match="on a terminal only"):
        agents.compose(agents.parse('name="b"\ntitle="B"\nprogram="b"\n'), Turn(headless=True, prompt="p"))


def test_a_shell_gets_its_words_as_they_are() -> None:
    shell = agents.of("shell", "")
    words = ["-c", "echo a b", "--dsp"]
    said = agents.split(shell, words)
    assert agents.compose(shell, Turn(words=said.words, headless=True)) == tuple(words)


def test_a_prompt_that_no_command_line_holds_is_refused() -> None:
    with pytest.raises(UserError, match="over 120 KiB"):
        Turn(prompt="ä" * 65 * 1024)


@pytest.mark.parametrize("name", [name for name in agents.built_in() if name != "shell"])
def test_every_agent_that_comes_with_us_can_be_given_a_prompt(name: str) -> None:
    agent = agents.of(name, "")
    words = agents.compose(agent, Turn(prompt="PROMPT", headless=True))
    assert any("PROMPT" in word for word in words)
    assert agents.compose(agent, Turn(prompt="PROMPT", headless=True, ask=True)) != words, "full permissions differ"
    agents.compose(agent, Turn())

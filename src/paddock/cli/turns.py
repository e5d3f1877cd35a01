"""What a run of an agent is to do: the words after `--`, a prompt from a file or from standard input, and how it works.

With a terminal an agent is interactive, and a prompt is the first thing it is told. Without one it is headless.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from paddock.agents import Turn, empty_prompt, split
from paddock.cli import amounts, terminal
from paddock.cli.hostpaths import place
from paddock.errors import UserError

if TYPE_CHECKING:
    import argparse

    from paddock.agents import Agent, Said

_PROMPT_BYTES = 1 << 20


def turn(agent: Agent, options: argparse.Namespace) -> Turn:
    said = split(agent, options.command)
    headless = options.json or options.detach or not terminal.is_terminal()
    if agent.plain:
        _refuse_agent_words(agent, options)
        return Turn(words=said.words, headless=headless)
    return Turn(
        words=said.words,
        prompt=_prompt(agent, said, options, headless=headless),
        headless=headless,
        ask=options.ask,
        model=options.model,
        json=options.json,
        resume=said.resume,
        stuck_after_s=_stuck_after(options.stuck_after),
    )


def _stuck_after(word: str) -> float | None:
    return 0.0 if word == "never" else amounts.duration(word, "--stuck-after")


def _refuse_agent_words(agent: Agent, options: argparse.Namespace) -> None:
    for key in ("ask", "model", "prompt_file", "json", "stuck_after"):
        if getattr(options, key):
            message = f"--{key.replace('_', '-')} is for agents, and {agent.name} is none"
            raise UserError(message, hint="leave it out", code="usage")


def _prompt(agent: Agent, said: Said, options: argparse.Namespace, *, headless: bool) -> str:
    if said.prompt is not None and options.prompt_file:
        raise UserError("two prompts: --prompt-file and the word after --", hint="give one", code="usage")
    if said.prompt == "-" or options.prompt_file == "-":
        text = _standard_input()
    elif options.prompt_file:
        text = _file(place(options.prompt_file))
    elif said.prompt is not None:
        text = said.prompt
    elif headless and not options.detach and not os.isatty(0):
        text = _standard_input()
        if not text.strip():
            raise empty_prompt(agent.name)
    elif headless:
        raise empty_prompt(agent.name)
    else:
        return ""
    if not text.strip():
        raise UserError("the prompt is empty", hint="say what the agent is to do", code="no-prompt")
    if "\0" in text:
        raise UserError("the prompt holds a NUL byte", hint="give text", code="bad-prompt")
    return text


def _standard_input() -> str:
    data = sys.stdin.buffer.read(_PROMPT_BYTES) if sys.stdin is not None else b""
    return _text(data, "standard input")


def _file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _text(file.read(_PROMPT_BYTES), path)
    except OSError as error:
        message = f"cannot read the prompt from {path!r}: {error.strerror}"
        raise UserError(message, hint="give a text file", code="bad-prompt") from error


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise UserError(f"the prompt from {source} is not UTF-8 text", hint="give text", code="bad-prompt") from None

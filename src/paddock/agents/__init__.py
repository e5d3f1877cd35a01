"""Agents, as data: what is known of each, which there are, and the command line of a run."""

from __future__ import annotations

from paddock.agents.catalogue import DEFAULT, Found, built_in, find, names, of, read, unknown
from paddock.agents.definition import Agent, parse
from paddock.agents.turn import LAST, Said, Turn, compose, empty_prompt, split

__all__ = [
    "DEFAULT",
    "LAST",
    "Agent",
    "Found",
    "Said",
    "Turn",
    "built_in",
    "compose",
    "empty_prompt",
    "find",
    "names",
    "of",
    "parse",
    "read",
    "split",
    "unknown",
]

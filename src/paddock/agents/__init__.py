"""Which agents exist, as data: one TOML file each. Names of agents to come are reserved, so that no box takes them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from paddock.errors import UserError

DEFAULT = "shell"
RESERVED = frozenset({"claude", "codex", "gemini", "copilot", "opencode", "kiro", "cagent", "shell"})
_KEYS = {"name", "interactive", "fallback"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    name: str
    interactive: tuple[str, ...]
    fallback: tuple[str, ...]


def names() -> tuple[str, ...]:
    files = os.listdir(os.path.dirname(__file__))
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def find(name: str) -> Agent:
    if name not in names():
        raise UserError(
            f"agent {name!r} is not available in this version",
            hint=f"available: {', '.join(names())}; any command runs with `paddock run -- {name}`",
            code="unknown-agent",
        )
    import tomllib  # 3 ms that the command line, which only asks for names, does not need

    with open(os.path.join(os.path.dirname(__file__), f"{name}.toml"), "rb") as file:
        data = tomllib.load(file)
    unknown = set(data) - _KEYS
    if unknown:
        raise UserError(f"unknown key {min(unknown)!r} in agent {name!r}", code="unknown-key")
    return Agent(name=data["name"], interactive=tuple(data["interactive"]), fallback=tuple(data["fallback"]))

"""Reads presets. Keys: `description`; `domains`, each allowed with all below it at `ports` (443 unless said); `allow`
and `deny` with patterns; `include` for the presets a preset consists of; `login` for where an agent logs in, which is
opened for boxes that are to have its token (--allow-login) and by no preset. An agent's hosts are in its definition,
and make a preset of its name: where it reports what its user does is refused there.

Registries of packages stand there as domains, never as single hosts: they move between hosts of their domain. A preset
is part of the program, so it is checked as strictly as a user's file, and by a test for all of them.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock import agents
from paddock.errors import UserError
from paddock.policy.pattern import Pattern
from paddock.policy.rules import Action, Rule, Source, SourceKind
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.agents import Agent

_KEYS = {"description", "domains", "ports", "include", "allow", "deny", "login"}
_HTTPS = 443
_DIRECTORY = os.path.dirname(__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The rules of a preset and of those it includes; each names the preset whose file it stands in."""

    name: str
    description: str
    include: tuple[str, ...]
    rules: tuple[Rule, ...]
    login: tuple[str, ...] = ()


@functools.cache
def names() -> tuple[str, ...]:
    files = (name.removesuffix(".toml") for name in os.listdir(_DIRECTORY) if name.endswith(".toml"))
    return tuple(sorted({*files, *agents.built_in()} - {agents.DEFAULT}))


def find(name: str) -> Preset:
    """Raises UserError `unknown-preset`."""
    if name not in names():
        shown = neutralise(name, 80)
        raise UserError(f"there is no preset '{shown}'", hint=f"one of {', '.join(names())}", code="unknown-preset")
    return _load(name)


@functools.cache
def _load(name: str) -> Preset:
    if name in agents.built_in():
        return of_agent(agents.of(name, ""))
    import tomllib

    with open(os.path.join(_DIRECTORY, f"{name}.toml"), "rb") as file:
        return _parsed(name, tomllib.load(file))


def of_agent(agent: Agent) -> Preset:
    """What an agent may reach: nothing that its definition does not name."""
    hosts = agent.hosts
    return _parsed(
        agent.name,
        {
            "description": f"{agent.title}: its models and its settings",
            "domains": hosts.domains,
            "ports": hosts.ports,
            "allow": hosts.allow,
            "deny": hosts.telemetry,
            "login": hosts.login,
        },
    )


def _parsed(name: str, data: dict[str, Any]) -> Preset:
    if unknown := set(data) - _KEYS:
        raise UserError(f"unknown key {min(unknown)!r} in preset {name!r}", code="unknown-key")
    source = Source(SourceKind.PRESET, name)
    allow = [
        f"{below}{domain}:{port}"
        for domain in data.get("domains", ())
        for port in data.get("ports", [_HTTPS])
        for below in ("", "*.")
    ]
    rules = [Rule(Action.DENY, Pattern(text).text, source) for text in data.get("deny", ())]
    rules += [Rule(Action.ALLOW, Pattern(text).text, source) for text in [*allow, *data.get("allow", ())]]
    include = tuple(data.get("include", ()))
    for other in include:
        rules += find(other).rules
    login = tuple(Pattern(text).text for text in data.get("login", ()))
    rules = list(dict.fromkeys(rules))
    return Preset(name=name, description=data["description"], include=include, rules=tuple(rules), login=login)


def logins() -> tuple[str, ...]:
    """The agents of which it is known where they log in."""
    return tuple(name for name in names() if _load(name).login)


def login(agent: str) -> tuple[str, ...]:
    """Where an agent logs in; UserError if that is not known."""
    if agent not in logins():
        shown = neutralise(agent, 80)
        raise UserError(f"it is not known where '{shown}' logs in", hint=f"one of {', '.join(logins())}", code="usage")
    return _load(agent).login

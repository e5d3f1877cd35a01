"""agent ls|show: which agents there are, where a box finds the program of each, and whether its user has a key."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from paddock import agents, codec, text, tools
from paddock.cli.hostpaths import place
from paddock.cli.main import warn
from paddock.client import lending
from paddock.engines.process import hostprograms
from paddock.errors import PaddockError, UserError
from paddock.paths import Paths, home_directory
from paddock.reports import AgentInfo

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from paddock.agents import Agent, Found
    from paddock.agents.definition import Words

_LINE_CHARS: Final = 1000
_KEYS_SHOWN: Final = 2
_VALUES: Final = {"model": "MODEL", "resume": "ID", "prompt": "PROMPT"}


def chosen(name: str, agent_file: str, config: str) -> Found:
    """The agent of a command line: by its name, or by a file that stands in place of it."""
    if agent_file:
        found = agents.read(place(agent_file))
        if name and name != found.agent.name:
            raise UserError(f"the file defines {found.agent.name!r}, not {name!r}", hint="give one", code="usage")
        return found
    if not name:
        raise UserError("which agent?", hint="`paddock agent ls` lists them", code="usage")
    return agents.find(name, config)


def every(config: str) -> Iterator[Found]:
    """All agents, but for those whose file is damaged: that is said, and does not hide the others."""
    for name in agents.names(config):
        try:
            found = agents.find(name, config)
        except PaddockError as error:
            warn(error.message)
            continue
        if not found.agent.plain:
            yield found


def ls(options: argparse.Namespace) -> int:
    paths = Paths()
    infos = []
    for found in every(paths.config):
        try:
            infos.append(_info(found, paths))
        except PaddockError as error:  # a damaged tool, likewise
            warn(error.message)
    if options.json:
        print(json.dumps([codec.to_wire(info) for info in infos], indent=2))
    elif options.quiet:
        print("\n".join(info.name for info in infos))
    else:
        print(text.table(map(_row, infos), ("NAME", "TITLE", "PROGRAM", "KEY", "TESTED WITH")))
    return 0


def _info(found: Found, paths: Paths) -> AgentInfo:
    agent = found.agent
    path, home = os.environ.get("PATH", ""), home_directory()
    located = tools.located(agent, paths, path, home)
    probe = tools.Probes(paths.probes).find(located.identity) if located else None
    return AgentInfo(
        name=agent.name,
        title=agent.title,
        origin=located.kind if located else "",
        version=(located.version if located else "") or (probe.version if probe else ""),
        program=located.program if located else "",
        why="" if located else hostprograms.find(agent.program, path, home).why,
        key=_key(agent, paths),
        keys=agent.keys.any,
        verified=agent.verified,
        stand_in=agent.stand_in,
        source=found.source,
    )


def _key(agent: Agent, paths: Paths) -> str:
    """The names of those of its keys that would be lent."""
    lent = lending.keys(agent.keys, paths)
    return ", ".join(use.name + (f" (${use.variable})" if use.variable else "") for use in lent.uses)


def _row(info: AgentInfo) -> tuple[str, ...]:
    few = [*info.keys[:_KEYS_SHOWN], *([f"{len(info.keys) - _KEYS_SHOWN} more"] if info.keys[_KEYS_SHOWN:] else [])]
    missing = f"missing: {' or '.join(few)}" if few else "none needed"
    tested = f"{info.verified} (stand-in)".strip() if info.stand_in else info.verified
    return info.name, info.title, _origin(info), info.key or missing, tested


def _origin(info: AgentInfo) -> str:
    return f"{info.origin} {info.version}".strip() if info.origin else "not installed"


# -- show --------------------------------------------------------------------------------------------------------------


def show(options: argparse.Namespace) -> int:
    paths = Paths()
    found = chosen(options.name, options.agent_file, paths.config)
    info = _info(found, paths)
    if options.json:
        shown = {"info": codec.to_wire(info), "definition": codec.to_wire(found.agent)}
        print(json.dumps(shown, indent=2))
        return 0
    for key, value in _facts(found, info):
        if value:
            print(f"{key:12} {text.neutralise(value, _LINE_CHARS)}")
    return 0


def _facts(found: Found, info: AgentInfo) -> Iterator[tuple[str, str]]:
    agent = found.agent
    yield "name", agent.name
    yield "title", agent.title
    yield "defined in", info.source or "paddock itself"
    yield "program", f"{info.program or agent.program} ({_origin(info)})"
    yield "not seen", info.why
    yield "tested with", f"{agent.verified} (a stand-in)".strip() if agent.stand_in else agent.verified
    yield "installed by", _installed_by(agent)
    yield "keys", _keys(agent, info)
    hosts = agent.hosts
    ports = ",".join(map(str, hosts.ports))
    yield "hosts", " ".join((*hosts.allow, *(f"*.{domain}:{ports}" for domain in hosts.domains)))
    yield "login hosts", " ".join(hosts.login)
    yield "refused", f"{' '.join(hosts.telemetry)} (telemetry)" if hosts.telemetry else ""
    yield "environment", " ".join(f"{key}={value}" for key, value in agent.env.items())
    yield "state", " ".join(f"~/{path}" for path in agent.state.paths)
    yield "seeded", " ".join(f"~/{seed.path}" for seed in agent.seed)
    yield "settings", " ".join(f"~/{path}" for path in agent.settings.paths)
    yield "mcp servers", f"~/{agent.mcp.file}" if agent.mcp.file else ""
    yield "interactive", _command(agent, agent.interactive)
    yield "headless", _command(agent, agent.headless)
    yield "output", agent.output.format
    yield "stuck after", f"{text.duration(agent.stuck_after_s)} of silence"


def _installed_by(agent: Agent) -> str:
    if not agent.install.package:
        return agent.install.otherwise
    source = f"npm {agent.install.npm}" if agent.install.npm else f"pip {agent.install.pip}"
    return f"`paddock agent install {agent.name}`, from {source}"


def _keys(agent: Agent, info: AgentInfo) -> str:
    if not agent.keys.any:
        return ""
    how = "all of" if agent.keys.lend == "all" else "one of"
    there = f"there: {info.key}" if info.key else "none is there"
    return f"{how} {', '.join(agent.keys.any)}{', or none' if agent.keys.optional else ''}; {there}"


def _command(agent: Agent, mode: Words) -> str:
    """As it is run; in brackets what is there when it was asked for."""
    if not mode.argv:
        return ""
    words = [agent.program]
    for word in mode.argv:
        if word == "{args}":
            words.append("[FLAGS]")
        elif word == "{full}":
            words += _said(agent, mode, "full")
        elif word == "{continue}":
            ways = [" ".join(_said(agent, mode, one)) for one in ("go_on", "resume")]
            words.append(f"[{' | '.join(filter(None, ways))}]")
        elif word in {"{model}", "{json}", "{prompt}"}:
            words.append(f"[{' '.join(_said(agent, mode, word.strip('{}')))}]")
        else:
            words.append(word)
    return " ".join(word for word in words if word != "[]")


def _said(agent: Agent, mode: Words, key: str) -> tuple[str, ...]:
    return tuple(word.replace("{}", _VALUES.get(key, "")) for word in agent.words_of(mode, key) or ())

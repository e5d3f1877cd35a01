"""agent check: what programs of agents say of themselves, asked in boxes without network, and what does not match."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from paddock import codec, text, tools
from paddock.cli import probing
from paddock.cli.agentlist import chosen, every
from paddock.client import Paddock
from paddock.errors import PaddockError
from paddock.reports import AgentCheck
from paddock.tools import probes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.agents import Agent, Found

_OFF: Final = 1


def check(options: argparse.Namespace) -> int:
    results = []
    with Paddock() as paddock:
        for found, was_named in _wanted(paddock, options):
            try:
                results.append(checked(paddock, found))
            except PaddockError as error:
                if was_named or error.code != "not-installed":
                    results.append(AgentCheck(name=found.agent.name, problems=(error.message,), hint=error.hint))
    if options.json:
        print(json.dumps([codec.to_wire(result) for result in results], indent=2))
    elif results:
        rows = [(one.name, one.origin, one.version, "; ".join(one.problems) or "ok") for one in results]
        print(text.table(rows, ("NAME", "FROM", "VERSION", "MATCHES")))
        _say_hints(results)
    else:
        print("no agent's program is found; `paddock agent install NAME` installs one", file=sys.stderr)
    return _OFF if any(result.problems for result in results) else 0


def _wanted(paddock: Paddock, options: argparse.Namespace) -> list[tuple[Found, bool]]:
    config = paddock.paths.config
    if options.names or options.agent_file:
        return [(chosen(name, options.agent_file, config), True) for name in options.names or [""]]
    return [(found, False) for found in every(config)]


def _say_hints(results: Sequence[AgentCheck]) -> None:
    for hint in dict.fromkeys(result.hint for result in results if result.problems and result.hint):
        print(f"hint: {text.neutralise(hint, 4 * text.LINE_CHARS)}", file=sys.stderr)


# -- one agent ---------------------------------------------------------------------------------------------------------


def checked(paddock: Paddock, found: Found, *, whole: bool = True) -> AgentCheck:
    """What does not match; `whole` reads all files of an installed one. UserError when its program is nowhere."""
    agent = found.agent
    located = probing.locate(paddock, agent)
    probe = probing.ask(paddock, agent, located)
    lacking = probes.missing(agent, probe)
    problems = [f"it does not work in a box: {probe.problem}"] if probe.problem else []
    for flag in lacking:
        has = probes.has_it(agent, flag, probe.version)
        problems.append(f"no {flag}" + (f" ({has})" if has else ""))
    hint = _hint(agent, probe.version)
    if whole and (tool := tools.tool_of(agent, paddock.paths)) and (changed := tool.changed()):
        problems.append(f"its files are not those that were installed: {', '.join(changed)}")
        hint = f"`paddock agent rm {agent.name}`, then `paddock agent install {agent.name}`"
    return AgentCheck(
        name=agent.name,
        origin=located.kind,
        program=located.program,
        version=probe.version or located.version,
        verified=agent.verified,
        missing=lacking,
        problems=tuple(problems),
        hint=hint if problems else "",
    )


def _hint(agent: Agent, version: str) -> str:
    if version == agent.verified:
        return f"the definition is off, not the program; `paddock agent show {agent.name}` shows what is used of it"
    if agent.install.package:
        tested = f"@{agent.verified}" if agent.verified else ""
        return f"`paddock agent install {agent.name}{tested}`"
    return f"`paddock agent show {agent.name}` shows what is used of it"

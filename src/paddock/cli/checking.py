"""agent check: what programs of agents say of themselves, asked in boxes without network, and what does not match."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import agents, codec, frames, fs, limits, text, tools
from paddock.cli.agentlist import chosen
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.client.answers import box_request
from paddock.errors import PaddockError, Unavailable
from paddock.model import ExecSpec, Limits, Network
from paddock.paths import home_directory
from paddock.reports import AgentCheck
from paddock.tools import Probe, Probes, probes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.agents import Agent, Found
    from paddock.model import BoxRequest
    from paddock.tools import Located

_OFF: Final = 1
_SHOWN_CHARS: Final = 160  # of what a program says that does not work


def check(options: argparse.Namespace) -> int:
    results = []
    with Paddock() as paddock:
        for found, was_named in _wanted(paddock, options):
            try:
                results.append(checked(paddock, found, again=True))
            except PaddockError as error:
                if was_named or error.code != "not-installed":
                    results.append(AgentCheck(name=found.agent.name, problems=(error.message,), hint=error.hint))
    if options.json:
        print(json.dumps([codec.to_wire(result) for result in results], indent=2))
    elif results:
        rows = [(one.name, _origin(one), one.version, "; ".join(one.problems) or "ok") for one in results]
        print(_table(rows))
        _say_hints(results)
    else:
        print("no agent's program is found; `paddock agent install NAME` installs one", file=sys.stderr)
    return _OFF if any(result.problems for result in results) else 0


def _wanted(paddock: Paddock, options: argparse.Namespace) -> list[tuple[Found, bool]]:
    config = paddock.paths.config
    if options.names or options.agent_file:
        return [(chosen(name, options.agent_file, config), True) for name in options.names or [""]]
    every = []
    for name in agents.names(config):
        try:
            every.append((agents.find(name, config), False))
        except PaddockError as error:  # one damaged file does not hide the others
            warn(error.message)
    return [(found, named) for found, named in every if not found.agent.plain]


def _origin(result: AgentCheck) -> str:
    return result.origin or "-"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    cells = [tuple(text.neutralise(cell, 4 * text.LINE_CHARS) for cell in row) for row in rows]
    return text.table(cells, ("NAME", "FROM", "VERSION", "MATCHES"))


def _say_hints(results: Sequence[AgentCheck]) -> None:
    for hint in dict.fromkeys(result.hint for result in results if result.problems and result.hint):
        print(f"hint: {text.neutralise(hint, 4 * text.LINE_CHARS)}", file=sys.stderr)


# -- one agent ---------------------------------------------------------------------------------------------------------


def ensure(paddock: Paddock, found: Found, argv: Sequence[str]) -> str:
    """Before a run: its program is there and knows the flags of `argv`; its version.

    A program that was never asked is asked now, and then remembered for as long as it is the same. UserError when it is
    not installed or lacks a flag; Unavailable when it does not even tell its version.
    """
    located = _located(paddock, found.agent)
    probe = Probes(paddock.paths.probes).find(located.identity) or _probe(paddock, found, located)
    if probe.problem:
        raise Unavailable(f"{found.agent.name} does not work in a box: {probe.problem}", hint=_HINT, code="no-probe")
    tools.refuse_missing(found.agent, probe, argv)
    return probe.version or located.version


def checked(paddock: Paddock, found: Found, *, again: bool, whole: bool = True) -> AgentCheck:
    """What does not match; `whole` reads all files of an installed one. UserError when its program is nowhere."""
    agent = found.agent
    located = _located(paddock, agent)
    known = None if again else Probes(paddock.paths.probes).find(located.identity)
    probe = known or _probe(paddock, found, located)
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


_HINT: Final = "`paddock run -- PROGRAM --version` shows what it says; a tool is made anew by `paddock agent install`"


def _hint(agent: Agent, version: str) -> str:
    if version == agent.verified:
        return f"the definition is off, not the program; `paddock agent show {agent.name}` shows what is used of it"
    if agent.install.npm or agent.install.pip:
        tested = f"@{agent.verified}" if agent.verified else ""
        return f"`paddock agent install {agent.name}{tested}`"
    return f"`paddock agent show {agent.name}` shows what is used of it"


def _located(paddock: Paddock, agent: Agent) -> Located:
    path, home = os.environ.get("PATH", ""), home_directory()
    located = tools.located(agent, paddock.paths, path, home)
    if located is None:
        raise tools.missing(agent, path, home)
    return located


def _probe(paddock: Paddock, found: Found, located: Located) -> Probe:
    agent = found.agent
    said, problem = _said(paddock, agent, located, agent.version) if agent.version else ("", "")
    pages = []
    for words in agent.help if not problem else ():
        page, _ = _said(paddock, agent, located, words)
        pages.append(page)
    flags = probes.flags_in(pages)
    if not problem and agent.help and probes.used(agent) and not flags:
        problem = "its help shows no flags"
    probe = Probe(version=probes.version_in(said), flags=flags, problem=problem)
    if not problem:
        try:
            Probes(paddock.paths.probes).keep(located.identity, probe)
        except PaddockError as error:
            warn(error.message)  # it is asked again the next time
    return probe


def _said(paddock: Paddock, agent: Agent, located: Located, words: Sequence[str]) -> tuple[str, str]:
    """What it prints, or why it does not; in a box of its own, which reaches nothing and has an empty workspace."""
    empty = tempfile.mkdtemp(prefix="paddock-check-")
    try:
        request = box_request(
            workspace=os.path.realpath(empty),
            env=agent.env,
            ephemeral=True,
            network=Network(default="deny", on_deny="deny"),
            limits=Limits(wall_s=limits.PROBE_S),
        )
        given = (agent.name,) if located.kind == "tool" else ()
        spec = ExecSpec(argv=(located.program, *words), timeout_s=limits.PROBE_S)
        return _output(paddock, replace(request, tools=given), spec)
    except PaddockError as error:
        return "", text.neutralise(error.message, _SHOWN_CHARS)
    finally:
        fs.remove_tree(empty)


def _output(paddock: Paddock, request: BoxRequest, spec: ExecSpec) -> tuple[str, str]:
    kept: dict[int, bytearray] = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
    with paddock.start_run(request, spec) as command:
        for kind, data in command.output():
            kept[kind] += data[: limits.PROBE_BYTES - len(kept[kind])]
        result = command.result
    paddock.call("ending", box=command.box.id)
    out, errors = (kept[kind].decode("utf-8", "replace") for kind in (frames.STDOUT, frames.STDERR))
    assert result is not None
    if result.ok:
        return f"{out}\n{errors}", ""
    how = "it took too long" if result.timed_out else f"exit code {result.exit_code}"
    last = next((line for line in reversed((errors or out).splitlines()) if line.strip()), "")
    return f"{out}\n{errors}", text.neutralise(f"{how}: {last}" if last else how, _SHOWN_CHARS)

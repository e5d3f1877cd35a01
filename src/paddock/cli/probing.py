"""What an agent's program says of itself, asked in a box; before a run only of one that was never asked."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import frames, fs, limits, text, tools
from paddock.cli.main import warn
from paddock.client.answers import box_request
from paddock.errors import PaddockError, Unavailable
from paddock.model import ExecSpec, Limits, Network
from paddock.paths import home_directory
from paddock.tools import Probe, Probes, probes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.agents import Agent
    from paddock.client import Paddock
    from paddock.model import BoxRequest
    from paddock.tools import Located

_SHOWN_CHARS: Final = 160  # of what a program says that does not work
_HINT: Final = "`paddock run -- PROGRAM --version` shows what it says; a tool is made anew by `paddock agent install`"


def ensure(paddock: Paddock, agent: Agent, argv: Sequence[str]) -> str:
    """Before a run: its program is there and knows the flags of `argv`; its version.

    A program that was never asked is asked now, and then remembered for as long as it is the same. UserError when it is
    not installed or lacks a flag; Unavailable when it does not even tell its version.
    """
    located = locate(paddock, agent)
    probe = Probes(paddock.paths.probes).find(located.identity) or ask(paddock, agent, located)
    if probe.problem:
        raise Unavailable(f"{agent.name} does not work in a box: {probe.problem}", hint=_HINT, code="no-probe")
    tools.refuse_missing(agent, probe, argv)
    return probe.version or located.version


def locate(paddock: Paddock, agent: Agent) -> Located:
    """Where a box of ours finds it; UserError when it does not."""
    path, home = os.environ.get("PATH", ""), home_directory()
    located = tools.located(agent, paddock.paths, path, home)
    if located is None:
        raise tools.missing(agent, path, home)
    return located


def ask(paddock: Paddock, agent: Agent, located: Located) -> Probe:
    """Now, and remember what it says if it can be asked."""
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
    import tempfile  # 7 ms that a run of a program that is known does not need

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

"""The end of a run of an agent: what changed, what was refused, what it cost, and what to do next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import agents, codec, text
from paddock.cli import runs
from paddock.errors import PaddockError
from paddock.model import WorkspaceMode
from paddock.reports import RunInfo

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from paddock.agents import Agent
    from paddock.client import Command, Paddock
    from paddock.model import BoxInfo

_NAMES = 5
_LINE_CHARS = 600


def say(paddock: Paddock, command: Command, options: argparse.Namespace) -> None:
    """After an agent's command; its own outcome stands, whatever happens here."""
    if options.quiet:
        return
    for line in ending_lines(paddock, command, options):
        print(f"paddock: {text.neutralise(line, _LINE_CHARS)}", file=sys.stderr)


def ending_lines(paddock: Paddock, command: Command, options: argparse.Namespace) -> list[str]:
    """Nothing where there is no record: the command was not an agent's."""
    try:
        info = codec.from_wire(RunInfo, paddock.call("run_wait", run=command.job))
    except PaddockError:
        return []
    return list(_lines(info, command.box, stays=not options.rm))


def _lines(info: RunInfo, box: BoxInfo, *, stays: bool) -> Iterator[str]:
    if info.reason == "running":
        yield f"run {info.id}: what became of it is not known yet; `paddock runs show {info.id}`"
        return
    if info.reason != "done":
        yield f"run {info.id} {_result(info)}"
    yield f"changed: {runs.changed(info.changed, _NAMES)}"
    yield f"refused: {runs.refused(info)}"
    yield f"cost: {runs.cost(info)}"
    yield f"next: {'; '.join(_next(info, box)) if stays else f'`paddock runs show {info.id}` tells more'}"


def _result(info: RunInfo) -> str:
    word = {"failed": f"failed with exit code {info.exit_code}", "auth": "failed for want of a good key"}
    return word.get(info.reason, info.reason) + (f": {info.why}" if info.why else "")


def _next(info: RunInfo, box: BoxInfo) -> Iterator[str]:
    agent = _agent(box)
    if info.reason == "auth":
        yield f"`paddock secret set {_key(agent, box)}` keeps a good key"
    if info.reason == "budget":
        yield f"`paddock run --max-cost DOLLARS {box.name}` allows more"
    if info.reason == "stuck":
        yield f"`paddock logs {box.name}/{info.id}` shows what it wrote; --stuck-after TIME gives it longer"
    if box.mode is WorkspaceMode.REVIEW:
        yield f"`paddock diff {box.name}` shows what it changed, `paddock apply {box.name}` brings it home"
    if box.mode is WorkspaceMode.CLONE:
        yield f"`paddock git {box.name} log` lists the commits that came home"
    if info.network.refused:
        yield f"`paddock policy suggest {box.name}` prints rules for what was refused"
    if agent is not None and agent.words.go_on is not None:
        yield f"`paddock run {box.name} -- --continue` goes on"
    else:
        yield f"`paddock run {box.name}` runs it again"


def _agent(box: BoxInfo) -> Agent | None:
    try:
        return agents.of(box.agent, box.definition)
    except PaddockError:
        return None


def _key(agent: Agent | None, box: BoxInfo) -> str:
    """The one that it works with now, or the one that it would be lent first."""
    known = agent.keys.any if agent else ()
    lent = [use.name for use in box.secrets if use.name in known] or [use.name for use in box.secrets]
    return (*lent, *known, "NAME")[0]

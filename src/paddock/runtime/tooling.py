"""The tools of a box: taken from the store at each start, kept while it runs, and known again by the next daemon."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from paddock import codec, fs, tools
from paddock.errors import PaddockError, UserError
from paddock.model import EngineName, Mount, WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.agents import Agent
    from paddock.model import BoxSpec
    from paddock.paths import Paths
    from paddock.runtime.box import Box

_FILE: Final = "tools.json"


def take(box: Box, agent: Agent, paths: Paths) -> None:
    """What the store has now. In one step of the event loop: who removes a tool asks `users` afterwards."""
    if agent.plain and not box.row.spec.tools and not box.tools:
        return
    found = [tools.Store(paths.tools).current(name) for name in box.row.spec.tools]
    found.append(tools.tool_of(agent, paths))
    box.tools = tuple(dict.fromkeys(tool.mount for tool in found if tool is not None))
    rows = [codec.to_wire(mount) for mount in box.tools]
    if rows or os.path.exists(f"{box.directory}/{_FILE}"):
        fs.write_atomic(f"{box.directory}/{_FILE}", json.dumps(rows).encode(), sync=False)


def kept(box: Box) -> tuple[Mount, ...]:
    """Of a box that an earlier daemon started."""
    try:
        with open(f"{box.directory}/{_FILE}", "rb") as file:
            return tuple(codec.from_wire(Mount, row, "tool") for row in json.load(file))
    except (OSError, ValueError, TypeError, PaddockError):
        return ()


def is_known(agent: Agent, paths: Paths, caller: tuple[str, str], argv: Sequence[str]) -> bool:
    """Whether the program said that it takes these words, for a caller of this PATH and home; UserError if it cannot.

    One that is not known has to be asked.
    """
    located = tools.located(agent, paths, *caller)
    if located is None:
        raise tools.missing(agent, *caller)
    probe = tools.Probes(paths.probes).find(located.identity)
    if probe is None or probe.problem:
        return False
    tools.refuse_missing(agent, probe, argv)
    return True


def version_of(box: Box, agent: Agent, paths: Paths) -> str:
    """Of the program that a running box has, as far as that is known: a tool's, or what the host's own said once."""
    for mount in box.tools:
        if mount.target == f"{tools.ROOT}/{agent.name}":
            return os.path.basename(os.path.dirname(mount.source))
    spec = box.row.spec
    located = tools.located(agent, paths, spec.caller_path, spec.caller_home)
    probe = tools.Probes(paths.probes).find(located.identity) if located and located.kind == "host" else None
    return probe.version if probe else ""


def refuse_planted(box: Box, agent: Agent, paths: Paths, boxes: Iterable[Box]) -> None:
    """UserError for a program that another box can write: it would do there what it likes with this one's files."""
    spec = box.row.spec
    located = tools.located(agent, paths, spec.caller_path, spec.caller_home)
    if located is None or located.kind != "host" or spec.engine is EngineName.CONTAINER:
        return
    names = (located.program, os.path.realpath(located.program))
    own = writable(spec)
    for other in boxes:
        for place in writable(other.row.spec) - own:
            if any(fs.is_beneath(name, place) for name in names):
                raise UserError(
                    f"{agent.name} is {names[0]}, which the box {other.name!r} can change",
                    hint=f"`paddock agent install {agent.name}`, or take {place} off your PATH and make this box anew",
                    code="unsafe-program",
                )


def writable(spec: BoxSpec) -> set[str]:
    """Directories of the host that the box can write to."""
    live = {spec.workspace} if spec.mode is WorkspaceMode.LIVE else set[str]()
    return live | {mount.source for mount in spec.mounts if not mount.read_only}


def users(boxes: Iterable[Box], tree: str) -> tuple[str, ...]:
    """The boxes that have a tree of the store, or are being started with it."""
    alive = [box for box in boxes if box.handle is not None or box.in_place]
    return tuple(box.name for box in alive if any(mount.source == tree for mount in box.tools))

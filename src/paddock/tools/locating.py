"""Where a box finds the program of an agent: in the tool store if its user installed it, else on the host."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from paddock.engines.process import hostprograms
from paddock.errors import UserError
from paddock.model import Mount
from paddock.tools import packages
from paddock.tools.store import Store, Tool

if TYPE_CHECKING:
    from paddock.agents import Agent
    from paddock.paths import Paths

_IDENTITY_CHARS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    kind: Literal["tool", "host"]
    program: str  # as the box has it
    identity: str  # another one when the program is
    version: str = ""  # of a tool; of the host's own only `probes` knows
    mounts: tuple[Mount, ...] = ()


def located(agent: Agent, paths: Paths, caller_path: str, home: str) -> Located | None:
    """For a box of a caller with this PATH and this home."""
    tool = tool_of(agent, paths)
    if tool is not None:
        return Located(
            kind="tool",
            program=tool.program,
            identity=_identity(agent, "tool", tool.record.digest),
            version=tool.record.version,
            mounts=(tool.mount,),
        )
    place = _on_host(agent, caller_path, home).path
    if not place:
        return None
    real = os.path.realpath(place)
    status = os.stat(real)
    # npm gives all files one date of its own: only the time of change tells two versions of one size apart.
    facts = (real, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Located(kind="host", program=place, identity=_identity(agent, "host", *map(str, facts)))


def tool_of(agent: Agent, paths: Paths) -> Tool | None:
    """What the next box of an agent gets; not what another definition of that name had installed."""
    if not agent.install.package:
        return None
    tool = Store(paths.tools).current(agent.name)
    if tool is None or tool.record.package != agent.install.package:
        return None
    return tool


def missing(agent: Agent, caller_path: str, home: str) -> UserError:
    """Its program is nowhere: why, and what its user does about it."""
    why = _on_host(agent, caller_path, home).why
    reason = f"; {why}" if why else ""
    if agent.install.package:
        hint = f"`paddock agent install {agent.name}`"
    else:
        hint = packages.not_installable(agent, "").hint
    return UserError(f"{agent.title} is not installed{reason}", hint=hint, code="not-installed")


def _on_host(agent: Agent, caller_path: str, home: str) -> hostprograms.HostProgram:
    found = hostprograms.find(agent.program, caller_path, home)
    if not found.path and agent.fallback:
        return hostprograms.find(agent.fallback, caller_path, home)
    return found


def _identity(agent: Agent, *facts: str) -> str:
    """Also of what it is asked: another definition may ask for other pages of its help."""
    said = "\0".join((*facts, repr(agent.version), repr(agent.help)))
    return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_IDENTITY_CHARS]

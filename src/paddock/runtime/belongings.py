"""What of its user's own a box has, and what of its agent's outlives it: settings, MCP servers, kept state.

Everything here is done while nothing of the box runs. Settings are a copy in our storage, shown read-only over the
home; files of an agent that are both (a seed or the list of servers goes into a file of the user's) get the rest in
that copy.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.process.operations import HOME
from paddock.errors import PaddockError, UserError
from paddock.mcp import entries as shapes
from paddock.mcp import merging
from paddock.model import Mount
from paddock.runtime import homes, mcpsockets, seeding
from paddock.runtime.homes import Home
from paddock.settings import copying
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.agents import Agent
    from paddock.model import BoxSpec, McpServer
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.runtime.kept import About

log = logging.getLogger(__name__)
_SETTINGS = "settings"


# -- state -------------------------------------------------------------------------------------------------------------


def check_state(box: Box) -> None:
    """UserError if nothing of this box's agent can be kept."""
    agent = box.agent
    if not agent.state.paths:
        message = f"{agent.name} has no state that is kept"
        raise UserError(message, hint="leave --keep-state out; the workspace stays as it is", code="no-state")


async def keep_state(runtime: Runtime, box: Box) -> bool:
    """Of a box that has ended and is about to go; whether there was any."""
    spec, agent = box.row.spec, box.agent
    try:
        home = homes.of(box.directory, spec, runtime.paths.layers)
        return await asyncio.to_thread(
            runtime.kept.keep, box.row.id, spec.agent, spec.workspace, home, agent.state.paths
        )
    finally:
        sweep(runtime)


def take_state(runtime: Runtime, box: Box) -> str:
    """Before the first start of a box: what an earlier one of this agent and directory left. Says so."""
    spec = box.row.spec
    if spec.ephemeral or spec.home_layers:  # a fork begins as its box was
        return ""
    found = runtime.kept.take(spec.agent, spec.workspace, f"{box.directory}/home")
    return _taken(found) if found else ""


def _taken(about: About) -> str:
    return f"the box has the state of {about.agent} that was kept on {about.kept_at[:10]} at {about.kept_at[11:16]} UTC"


async def drop_kept(runtime: Runtime) -> None:
    await asyncio.to_thread(runtime.kept.drop_all)
    sweep(runtime)


def sweep(runtime: Runtime) -> None:
    for path in runtime.kept.dropped():
        runtime.background.sweep(fs.remove_tree, path)


# -- settings ----------------------------------------------------------------------------------------------------------


class Settings:
    """A copy of the user's own, made anew for each start."""

    def __init__(self, spec: BoxSpec, agent: Agent, directory: str, home: Home) -> None:
        self._home = home
        self.place = f"{directory}/{_SETTINGS}"
        self.paths: list[str] = []
        self.notes: list[str] = []
        fs.remove_tree(self.place)
        if spec.with_settings and agent.settings.paths:
            self._bring(spec.caller_home, agent)

    def __repr__(self) -> str:
        return f"<Settings {self.paths}>"

    def _bring(self, home: str, agent: Agent) -> None:
        os.mkdir(self.place, 0o755)
        copied = copying.copy(home, agent.settings.paths, self.place)
        self.notes += copied.warnings()
        for path in copied.paths:
            if _fits(self._home, path, f"{self.place}/{path}"):
                self.paths.append(path)
            else:
                self.notes.append(f"settings left out (the box has something else in its home): {neutralise(path, 80)}")

    def root_of(self, path: str) -> Home:
        """Where a file of the home is to be written so that the box sees it."""
        covered = any(fs.is_beneath(path, one) for one in self.paths)
        return Home(self.place) if covered else self._home

    def mounts(self) -> tuple[Mount, ...]:
        return tuple(
            Mount(source=f"{self.place}/{path}", target=f"{HOME}/{path}", read_only=True) for path in self.paths
        )


def _fits(home: Home, path: str, source: str) -> bool:
    """Whether something can be mounted there: no link on the way, and a directory only over a directory.

    # TRUST: names that an agent made; they are looked at without following a link, while it does not run.
    """
    try:
        fd = home.open(path, os.O_PATH)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        mode = os.fstat(fd).st_mode
    finally:
        os.close(fd)
    return stat.S_IFMT(mode) == stat.S_IFMT(os.lstat(source).st_mode)


# -- MCP ---------------------------------------------------------------------------------------------------------------


def entries(runtime: Runtime, box: Box, agent: Agent) -> dict[str, object]:
    """The user's servers of a box, in the shape of its agent."""
    return {
        server.name: shapes.entry(agent.mcp.shape, server, _headers(runtime, box, server))
        for server in box.row.spec.mcp
    }


def _headers(runtime: Runtime, box: Box, server: McpServer) -> dict[str, str]:
    """Its own, and of each secret the one that carries it, with the box's placeholder."""
    headers = dict(server.headers)
    held = {item.name: item for item in runtime.credentials.held(box)} if server.url else {}
    for name in server.secrets if server.url else ():
        if (item := held.get(name)) is None:
            continue  # its record is lost, and the gateway says so
        header = (*item.binding.headers, "authorization")[0]
        headers[header] = f"Bearer {item.placeholder}" if header == "authorization" else item.placeholder
    return headers


def list_servers(runtime: Runtime, box: Box, agent: Agent, settings: Settings) -> str:
    """Into the agent's own list, without those of an earlier box; what its user should know if that cannot be."""
    if not agent.mcp.file:
        if not box.row.spec.mcp:
            return ""
        named = ", ".join(server.name for server in mcpsockets.commands(box.row.spec))
        return f"{agent.name} has no list of MCP servers: in the box `paddock-mcp NAME` connects to {named or 'none'}"
    made = entries(runtime, box, agent)
    try:
        seeding.rewrite(
            settings.root_of(agent.mcp.file),
            agent.mcp.file,
            lambda text: merging.merged(text, agent.mcp.format, agent.mcp.key, made),
        )
    except (OSError, ValueError, RecursionError, PaddockError) as error:
        log.warning("%s of %s: %s", agent.mcp.file, box.name, error)
        return f"{agent.mcp.file} of the box cannot be read: its agent does not know of {', '.join(made)}"
    return ""

"""A box for one connection to an MCP server: of one command, gone with it, and of its own policy.

It has no workspace unless that was said, but a directory of its own that stays with the agent's box: what a server
wants to remember lies there. Its files, its network and its secrets are not the agent's, and the agent's not its.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents
from paddock.errors import UserError
from paddock.mcp import lists
from paddock.model import BoxRequest, ExecSpec, Mount, Network, NetworkRule, SecretUse
from paddock.runtime import execution
from paddock.runtime.flags import canonical
from paddock.runtime.normalise import normalise

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from paddock.model import BoxSpec, McpServer
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

_DIRECTORY = "mcp-work"


async def start(runtime: Runtime, box: Box, server: McpServer) -> socket.socket:
    """The channel of the server's command; its box ends with it."""
    place = f"{box.directory}/{_DIRECTORY}/{server.name}"
    os.makedirs(place, mode=0o700, exist_ok=True)
    # Its home too: what a package runner fetched is there at the next connection.
    spec = ExecSpec(argv=server.command, env={"HOME": place}, stdin=True)
    _, _, channel = await execution.run(runtime, request(box.row.spec, server), spec, place=place)
    return channel


def request(spec: BoxSpec, server: McpServer) -> BoxRequest:
    shown = (spec.workspace, *server.mounts) if server.workspace == "ro" else server.mounts
    return BoxRequest(
        workspace=spec.workspace,
        mounts=tuple(Mount(source=_place(path, spec), target="", read_only=True) for path in shown),
        env=server.env,
        workdir=spec.workspace if server.workspace == "ro" else "",
        limits=replace(spec.limits, wall_s=None),  # each as its agent, whose own time ends it
        ephemeral=True,
        caller_path=spec.caller_path,
        caller_home=spec.caller_home,
        network=Network(default="deny", rules=_rules(server)),
        secrets=uses(server),
    )


def named(runtime: Runtime, spec: BoxSpec, names: Sequence[str]) -> BoxSpec:
    """The spec of an agent's box with the servers of these names: their hosts and secrets are the box's own if they
    are a URL's. UserError for a server or a secret that is not there."""
    agent = agents.of(spec.agent, spec.definition)
    servers = lists.find(names, config=runtime.paths.config, home=spec.caller_home, agent=agent)
    lent = {use.name: use for use in spec.secrets}
    rules = list(spec.network.rules)
    for server in servers:
        if server.url:
            rules.append(NetworkRule(action="allow", pattern=lists.place(server)))
            lent |= {use.name: use for use in uses(server) if use.name not in lent}
        else:
            _check(runtime, spec, server)
    network = canonical(replace(spec.network, rules=tuple(rules)))
    return replace(spec, mcp=servers, network=network, secrets=tuple(lent.values()))


def _check(runtime: Runtime, spec: BoxSpec, server: McpServer) -> None:
    """What its box would be refused for, before the agent's exists; and what would show it more than its agent sees."""
    if server.workspace == "ro" and spec.masks:
        message = f"the MCP server {server.name!r} would see what --mask hides from its agent"
        raise UserError(message, hint='workspace = "none", or leave --mask out', code="bad-mcp")
    wanted = request(spec, server)
    paths = runtime.paths
    normalise(wanted, private=paths.private, home=spec.caller_home, taken=(), place=paths.boxes)
    runtime.credentials.hold(wanted.secrets, server.env)


def uses(server: McpServer) -> tuple[SecretUse, ...]:
    return tuple(SecretUse(name=name) for name in dict.fromkeys(server.secrets))


def _place(path: str, spec: BoxSpec) -> str:
    """~ is the home of whose server it is."""
    return f"{spec.caller_home}/{path[2:]}" if path.startswith("~/") else path


def _rules(server: McpServer) -> tuple[NetworkRule, ...]:
    return tuple(NetworkRule(action="allow", pattern=pattern) for pattern in server.allow)

"""A caller's request becomes the one BoxSpec, or a UserError and nothing is created.

Every check stands here and on the resolved paths, so that it does not matter which entry point or field asked.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents, fs, guard
from paddock.engines.container import gvisor
from paddock.errors import UserError
from paddock.model import BoxRequest, BoxSpec, EngineName, Mount, NetworkRule, WorkspaceMode, check_name
from paddock.model.reference import Reference, is_path
from paddock.policy import Host, Pattern, presets
from paddock.runtime.flags import canonical
from paddock.secrets import services
from paddock.workspace import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from paddock.agents import Agent
    from paddock.model import Network

_SHAPE = (
    *("engine", "mounts", "limits", "mode", "branch", "masks", "writable", "ssh_keys", "logins"),
    *("with_settings", "template", "runtime"),
)
# As a project that narrows: what the user's file allows to all their boxes is not for one without a workspace.
_ONLY_OWN_RULES = '[network]\ndefault = "deny"\n'
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def normalise(
    request: BoxRequest, *, private: tuple[str, ...], home: str, taken: Collection[str], place: str = ""
) -> BoxSpec:
    """`place` is a directory of ours, for a box that has no workspace of its user's."""
    agent = agents.of(request.agent, request.definition)
    workspace = place or guard.check_source(request.workspace, home=home, state_dirs=private, what="workspace")
    if not os.path.isdir(workspace):
        raise UserError(f"the workspace {workspace} is not a directory", hint="give a directory", code="bad-workspace")
    mounts = tuple(_mount(mount, private, home) for mount in request.mounts)
    _distinct([workspace, *(mount.target for mount in mounts)])
    if request.mode is not WorkspaceMode.LIVE:
        _no_way_around(workspace, mounts)
    return BoxSpec(
        name=_name(request, workspace, taken, "mcp" if place else "run"),
        agent=request.agent,
        definition=request.definition,
        engine=request.engine,
        workspace=workspace,
        mounts=mounts,
        env=request.env,
        limits=request.limits,
        workdir=_workdir(request.workdir, workspace),
        ephemeral=request.ephemeral,
        caller_path=request.caller_path,
        caller_home=home,
        network=_network(request, agent, _ONLY_OWN_RULES if place else ""),
        mode=request.mode,
        branch=request.branch,
        masks=_each(guarded.check_mask, workspace, request.masks),
        writable=_each(guarded.check_writable, workspace, request.writable),
        secrets=request.secrets,
        budget=request.budget,
        ssh_keys=tuple(replace(use, host=Host(use.host).text) for use in request.ssh_keys),
        ssh_socket=check_agent(request.ssh_socket),
        logins=tuple(dict.fromkeys(request.logins)),
        tools=tuple(map(check_name, request.tools)),
        with_settings=request.with_settings,
        template=_template(request, private, home),
        runtime=request.runtime,
    )


def require_same_shape(spec: BoxSpec, request: BoxRequest, wanted: BoxSpec) -> None:
    """What was asked for, where anything was, must be what the box has; `wanted` is what the request would become."""
    plain = BoxRequest(workspace=request.workspace)
    for key in _SHAPE:
        if getattr(request, key) != getattr(plain, key) and getattr(wanted, key) != getattr(spec, key):
            raise _different(spec, key)
    if request.mcp and tuple(dict.fromkeys(request.mcp)) != tuple(server.name for server in spec.mcp):
        raise _different(spec, "MCP servers")
    if request.network.publish and wanted.network.publish != spec.network.publish:
        raise _different(spec, "ports")


def _network(request: BoxRequest, agent: Agent, project: str) -> Network:
    """A project's file the daemon reads itself."""
    network = _with_logins(request, _of_agent(request, agent))
    return canonical(replace(network, project=project))


def _of_agent(request: BoxRequest, agent: Agent) -> Network:
    """An agent reaches what its definition names, and if it says so where its keys go; the user's word counts more."""
    if agent.plain:
        return request.network
    network = with_agent(request.network, agent, request.definition)
    if not agent.hosts.of_secrets:
        return network
    lent = (services.find(use.name) for use in request.secrets if use.name in agent.keys.any)
    return _with_rules(
        network, [NetworkRule(action="allow", pattern=f"{host}:443") for one in lent if one for host in one.hosts]
    )


def with_agent(network: Network, agent: Agent, definition: str) -> Network:
    """As the preset of its name; of an agent that does not come with Paddock as rules of the box."""
    if not definition:
        return replace(network, presets=tuple(dict.fromkeys((*network.presets, agent.name))))
    rules = presets.of_agent(agent).rules
    return _with_rules(network, [NetworkRule(action=rule.action.value, pattern=rule.pattern) for rule in rules])


def _with_rules(network: Network, rules: Iterable[NetworkRule]) -> Network:
    said = {Pattern(rule.pattern).text for rule in network.rules}
    fresh = (rule for rule in rules if Pattern(rule.pattern).text not in said)
    return replace(network, rules=tuple(dict.fromkeys((*network.rules, *fresh))))


def _with_logins(request: BoxRequest, network: Network) -> Network:
    """A box in which an agent logs in reaches where it does that; what was said of such a host counts."""
    hosts = (host for agent in request.logins for host in _login(request, agent))
    return _with_rules(network, [NetworkRule(action="allow", pattern=host) for host in hosts])


def _login(request: BoxRequest, agent: str) -> tuple[str, ...]:
    if request.definition and agent == request.agent:
        return presets.of_agent(agents.of(agent, request.definition)).login
    return presets.login(agent)


def check_agent(path: str) -> str:
    if path and (not path.startswith("/") or "\0" in path):
        raise UserError(
            f"{path[:80]!r} is no socket of an ssh-agent", hint="give its absolute path", code="bad-ssh-key"
        )
    return path


def _different(spec: BoxSpec, what: str) -> UserError:
    return UserError(
        f"the box {spec.name!r} exists with other {what}",
        hint=f"recreate it: `paddock rm {spec.name}`, then run again",
        code="different",
    )


def _template(request: BoxRequest, private: tuple[str, ...], home: str) -> str:
    is_container = request.engine is EngineName.CONTAINER
    if is_container != bool(request.template) or (request.runtime and not is_container):
        raise UserError(
            "a container box, and no other, has a root of its own",
            hint="give both: --engine container -t NAME, or -t ./DIRECTORY, or -t ./FILE",
            code="bad-template",
        )
    if not is_container:
        return ""
    if request.runtime == gvisor.NAME and (request.mcp or request.ssh_keys):
        raise UserError(
            "MCP servers and ssh keys are sockets of the host, and a box on gVisor has none",
            hint="leave them out, or use another runtime",
            code="no-sockets",
        )
    if not is_path(request.template):
        return str(Reference.parse(request.template))
    return guard.check_source(request.template, home=home, state_dirs=private, what="template")


def _mount(mount: Mount, private: tuple[str, ...], home: str) -> Mount:
    source = guard.check_source(mount.source, home=home, state_dirs=private, what="mount")
    target = guard.check_target(mount.target or source)
    return Mount(source=source, target=target, read_only=mount.read_only)


def _distinct(targets: list[str]) -> None:
    for target in targets:
        if targets.count(target) > 1:
            raise UserError(f"{target} is mounted twice", hint="give each mount its own place", code="bad-mount")


def _no_way_around(workspace: str, mounts: tuple[Mount, ...]) -> None:
    """A review or a clone keeps the workspace as it is, but not under a second name that can be written to."""
    for mount in mounts:
        within = fs.is_beneath(workspace, mount.source)
        if within and not mount.read_only and mount.target + workspace[len(mount.source) :] != workspace:
            message = f"{mount.source} holds the workspace, and as {mount.target} the box could change that unreviewed"
            raise UserError(message, hint="mount it read-only, or leave it out", code="bad-mount")


def _each(check: Callable[[str, str], str], workspace: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check(workspace, path) for path in paths))


def _workdir(workdir: str, workspace: str) -> str:
    if not workdir:
        return workspace
    if "\0" in workdir:
        raise UserError("the working directory holds a NUL byte", code="bad-workdir")
    return os.path.normpath(os.path.join(workspace, workdir))


def _name(request: BoxRequest, workspace: str, taken: Collection[str], ephemeral: str) -> str:
    if request.name:
        name = check_name(request.name)
        if name in agents.built_in() or name == request.agent:
            raise UserError(f"{name!r} is the name of an agent", hint="choose another name", code="bad-name")
        if name in taken:
            raise UserError(
                f"a box named {name!r} exists", hint=f"use it, or remove it with `paddock rm {name}`", code="exists"
            )
        return name
    base = ephemeral if request.ephemeral else request.agent
    directory = _NOT_IN_NAMES.sub("-", os.path.basename(workspace).lower()).strip("-")[:40].strip("-")
    return free_name(f"{base}-{directory or 'box'}", taken)


def free_name(wanted: str, taken: Collection[str]) -> str:
    if wanted not in taken:
        return wanted
    return next(name for n in range(2, len(taken) + 3) if (name := f"{wanted}-{n}") not in taken)

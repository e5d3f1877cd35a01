"""run AGENT|BOX: an agent in the box of a directory, with full permissions unless it is to ask."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import agents, paths
from paddock.agents import Found
from paddock.cli import attending, following, opening, terminal, turns
from paddock.cli import options as words
from paddock.cli.hostpaths import place
from paddock.cli.main import warn
from paddock.client.defining import checked
from paddock.errors import UserError
from paddock.model import EngineName

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.agents import Agent, Turn
    from paddock.client import Box, Paddock
    from paddock.model import BoxInfo, BoxRequest, ExecSpec


def run(paddock: Paddock, options: argparse.Namespace) -> int:
    following.refuse_rm(words.mode(options), options)
    found, info = _named(paddock, options)
    turn = turns.turn(found.agent, options)
    box = _box(paddock, found, info, turn, options)
    following.refuse_rm(box.info.mode, options)
    spec = _exec_spec(options, turn, box)
    if options.detach:
        print(f"{box.name}/{box.detach_session(spec, turn)}")
        following.say_earlier(box, options)
        return 0
    command = box.session(spec, turn)
    try:
        return attending.attend(paddock, command, options, is_run=not found.agent.plain)
    finally:
        if options.rm:
            _remove(box)


def _exec_spec(options: argparse.Namespace, turn: Turn, box: Box) -> ExecSpec:
    """Without a terminal an agent that was given its prompt reads nothing: some would wait for an end of input."""
    spec = following.exec_spec(options, ["agent"], box=box)
    if turn.headless and turn.prompt:
        return replace(spec, tty=None, stdin=False)
    return replace(spec, keep=spec.tty is not None)


def _named(paddock: Paddock, options: argparse.Namespace) -> tuple[Found, BoxInfo | None]:
    """The first word is an agent, or the name of a box that exists."""
    infos = paddock.ls()
    if options.agent_file:
        options.extra = [word for word in (options.workspace, *options.extra) if word]
        options.workspace, options.what = options.what, ""
        return _checked(agents.read(place(options.agent_file)), infos, options), None
    config = paddock.paths.config
    info = next((info for info in infos if info.name == options.what), None)
    if info:
        return Found(agent=agents.of(info.agent, info.definition), definition=info.definition), info
    if options.what not in agents.names(config):
        raise agents.unknown(options.what, agents.names(config), also=" and no box")
    return _checked(agents.find(options.what, config), infos, options), None


def _checked(found: Found, infos: Sequence[BoxInfo], options: argparse.Namespace) -> Found:
    shown = (options.workspace or ".", *(word.removesuffix(":ro") for word in options.extra))
    return checked(found, infos, [place(word) for word in shown])


def _require_program(
    paddock: Paddock, found: Found, info: BoxInfo | None, turn: Turn, *, is_container: bool = False
) -> None:
    """It is there and knows the flags of this run. One that is named by its path is run as it is, and so is one that a
    container has of its template.
    """
    agent = found.agent
    argv = agents.compose(agent, turn)
    if agent.plain or agent.program.startswith("/"):
        return
    if is_container and _tool(paddock, agent) is None:
        return
    path, home = os.environ.get("PATH", ""), paths.home_directory()
    wanted = {"agent": agent.name, "definition": found.definition, "caller_path": path, "caller_home": home}
    try:
        if paddock.call("program", **wanted, argv=argv) is True:
            return
        from paddock.cli import probing  # it was never asked

        probing.ensure(paddock, agent, argv)
    except UserError as error:
        if error.code != "not-installed":
            raise
        if info is None:  # else it may be in the box's own home
            _offer(paddock, agent, error)
            _require_program(paddock, found, info, turn)


def _tool(paddock: Paddock, agent: Agent) -> object:
    from paddock import tools  # much, and of use for a container alone

    return tools.tool_of(agent, paddock.paths)


def _is_of(info: BoxInfo, request: BoxRequest) -> bool:
    return (info.agent, info.workspace) == (request.agent, os.path.realpath(request.workspace))


def _offer(paddock: Paddock, agent: Agent, error: UserError) -> None:
    """To install it, where there is somebody to answer."""
    package = agent.install.package
    if not package or not terminal.is_terminal():
        raise error
    version = f" {agent.verified}" if agent.verified else ""
    print(f"{error.message}. Install {package}{version} for boxes? [Y/n] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"", "y", "yes"}:
        raise error
    from paddock.cli import installing

    installing.installed(paddock, agent)


def _box(paddock: Paddock, found: Found, info: BoxInfo | None, turn: Turn, options: argparse.Namespace) -> Box:
    """What is missing is said before anything is made."""
    if info:
        _require_program(paddock, found, info, turn, is_container=info.engine is EngineName.CONTAINER)
        return opening.known(paddock, info, found.agent, options)
    request, lent = opening.request(paddock, options, found, ephemeral=False)
    before = {info.id: info for info in paddock.ls()}
    engines = {request.engine, *(one.engine for one in before.values() if _is_of(one, request))}
    _require_program(paddock, found, info, turn, is_container=EngineName.CONTAINER in engines)
    box, is_new = paddock.open(request, lent.given)
    if is_new:
        opening.warn_about_limits(box.info.limits)
    else:
        opening.lend_again(paddock, before.get(box.info.id, box.info), lent, options)
    return box


def _remove(box: Box) -> None:
    """The command's own outcome stands; a box whose commits cannot come home is not removed for it."""
    from paddock.cli import leaving

    try:
        leaving.say(box.stop(0.0), box.info.workspace)
        leaving.say_removed(box.remove(), box.info.workspace)
    except UserError as error:
        warn(f"the box stays: {error.message}; {error.hint}")

"""run, create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.cli import following, opening
from paddock.cli import options as words
from paddock.client import Paddock
from paddock.errors import PaddockError, UserError
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    import argparse

    from paddock.client import Box
    from paddock.model import ExecSpec


def run(options: argparse.Namespace) -> int:
    if options.rm and options.detach:
        raise UserError("--rm and --detach exclude each other", hint="`paddock rm -f` removes the box", code="usage")
    if not (options.what or options.command or options.agent_file or options.template):
        hint = "`paddock run -- COMMAND` or `paddock run shell .`"
        raise UserError("nothing to run", hint=hint, code="no-command")
    with Paddock() as paddock:
        if options.what or options.agent_file:
            from paddock.cli import agentruns

            return agentruns.run(paddock, options)
        return _run_command(paddock, options)


def _run_command(paddock: Paddock, options: argparse.Namespace) -> int:
    view = words.mode(options)
    following.refuse_rm(view, options)
    is_kept = bool(options.detach or options.name or view is not WorkspaceMode.LIVE) and not options.rm
    request, lent = opening.request(paddock, options, ephemeral=not is_kept)
    if not is_kept:
        command = paddock.start_run(request, following.exec_spec(options, options.command), lent.given)
        following.announce(command.box, options)
        opening.warn_about_limits(command.box.limits)
        return following.finish(paddock, command, options)
    box, is_new = opening.named(paddock, request, lent, options)
    spec = following.exec_spec(options, options.command, {} if is_new else request.env, box)
    if is_new:
        opening.warn_about_limits(box.refresh().limits)
    if options.detach:
        print(f"{box.name}/{_detach(box, spec, is_new=is_new)}")
        following.say_earlier(box, options)
        return 0
    command = box.start(spec)
    following.announce(command.box, options)
    return following.finish(paddock, command, options)


def _detach(box: Box, spec: ExecSpec, *, is_new: bool) -> str:
    try:
        return box.detach_spec(spec)
    except PaddockError:
        if is_new:  # a box that was made for a command that cannot be started
            box.remove(force=True)
        raise


def create(options: argparse.Namespace) -> int:
    from paddock import agents

    with Paddock() as paddock:
        known = agents.names(paddock.paths.config)
        agent, name = options.what, options.name
        if agent in known:
            if options.agent and options.agent != agent:
                raise UserError(f"two agents: {agent!r} and {options.agent!r}", hint="give one", code="usage")
        else:
            if name and name != agent:
                raise UserError(f"two names: {agent!r} and {name!r}", hint="give one", code="usage")
            agent, name = options.agent or agents.DEFAULT, agent
        options.name = name
        found = agents.find(agent, paddock.paths.config)
        request, lent = opening.request(paddock, options, found, ephemeral=False)
        box = paddock.box(paddock.call("create", request=request, given=lent.given))
        opening.warn_about_limits(box.refresh().limits)
        print(box.name)
    return 0

"""The box of a run: what is asked for, with which secrets, and whether it is there already."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.cli import environment, networds
from paddock.cli import options as words
from paddock.cli.main import warn
from paddock.errors import UserError
from paddock.model import Budget, Enforcement, Lent, Network

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.agents import Agent, Found
    from paddock.client import Box, Paddock
    from paddock.model import BoxInfo, BoxRequest, LimitReport


_AT_CREATION = (
    "name", "volume", "cpus", "memory", "pids", "disk", "publish", "review", "clone", "branch", "mask", "writable",
    "ssh_key", "allow_login", "with_settings", "mcp",
)  # fmt: skip


def request(
    paddock: Paddock, options: argparse.Namespace, found: Found | None = None, *, ephemeral: bool
) -> tuple[BoxRequest, Lent]:
    """What is asked for, with the secrets of it and the values that our environment has; of a shell if of no agent."""
    lent = lent_to(paddock, options)
    if options.template:
        from paddock.cli import builds

        builds.ready(paddock, options.template)
    asked = replace(words.request(options, agent="shell", ephemeral=ephemeral), secrets=lent.uses)
    if found:
        lent = with_key(paddock, options, found.agent, lent)
        asked = replace(asked, agent=found.agent.name, definition=found.definition, secrets=lent.uses)
    if options.ssh_key:
        from paddock.cli import sshkeys

        asked = replace(asked, ssh_keys=sshkeys.chosen(options.ssh_key), ssh_socket=sshkeys.own_socket())
    return asked, lent


def with_key(
    paddock: Paddock, options: argparse.Namespace, agent: Agent, lent: Lent, box: BoxInfo | None = None
) -> Lent:
    """An agent works with a key of its service: one that is there is lent by itself. UserError when there is none."""
    if not agent.keys.any or agent.name in (box.logins if box else options.allow_login):
        return lent
    from paddock.cli import lending

    return lending.with_key(paddock, options, agent, lent, box.secrets if box else ())


def lent_to(paddock: Paddock, options: argparse.Namespace) -> Lent:
    if not options.secret:
        return Lent()
    from paddock.cli import lending

    return lending.of(paddock, options)


def lend_again(paddock: Paddock, info: BoxInfo, lent: Lent, options: argparse.Namespace) -> None:
    """To a box that exists: secrets, what our environment has now, and what it may spend if that was said."""
    if info.secrets or lent.uses:
        from paddock.cli import lending

        lending.again(paddock, info, lent, options)
    if info.ssh_keys and (path := os.environ.get("SSH_AUTH_SOCK")):
        paddock.call("ssh_agent", box=info.id, path=os.path.realpath(path))
    budget = words.budget(options)
    if budget != Budget():
        paddock.call("budget", box=info.name, budget=budget)


def named(paddock: Paddock, request: BoxRequest, lent: Lent, options: argparse.Namespace) -> tuple[Box, bool]:
    """A new box; or the one of this name, if it is the box of this directory."""
    known = {info.name: info for info in paddock.ls()}
    if not request.name or request.name not in known:
        return paddock.box(paddock.call("create", request=request, given=lent.given)), True
    info = known[request.name]
    if info.workspace != os.path.realpath(request.workspace):
        raise UserError(
            f"the box {info.name!r} belongs to {info.workspace}",
            hint=f"`paddock exec {info.name} ...` runs a command there; another name makes a box here",
            code="exists",
        )
    _refuse_creation_options(info, options, allowed="name")
    lend_again(paddock, info, lent, options)
    return _with_network(paddock.get(info.name), options), False


def known(paddock: Paddock, info: BoxInfo, agent: Agent, options: argparse.Namespace) -> Box:
    """A box that was named."""
    if options.workspace or options.extra:
        hint = f"`paddock run {info.name}` without a directory"
        raise UserError(f"the box {info.name!r} has its workspace already", hint=hint, code="usage")
    _refuse_creation_options(info, options)
    lend_again(paddock, info, with_key(paddock, options, agent, lent_to(paddock, options), info), options)
    box = paddock.get(info.name)
    if values := environment.chosen(options):
        box.set_env(values)
    return _with_network(box, options)


def _with_network(box: Box, options: argparse.Namespace) -> Box:
    """What was said of the network is added to what the box has."""
    change = networds.network(options)
    if change != Network():
        box.set_network(change)
    return box


def _refuse_creation_options(info: BoxInfo, options: argparse.Namespace, *, allowed: str = "") -> None:
    for key in _AT_CREATION:
        if key != allowed and getattr(options, key):
            raise UserError(
                f"--{key.replace('_', '-')} is given when a box is made, and {info.name!r} exists",
                hint=f"leave it out, or recreate the box: `paddock rm {info.name}`, then run again",
                code="different",
            )


def warn_about_limits(reports: Sequence[LimitReport]) -> None:
    for report in reports:
        if report.enforcement is Enforcement.NONE and report.note:
            warn(report.note)

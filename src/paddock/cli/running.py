"""run, create."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from paddock.cli import environment, networds, outcome, terminal
from paddock.cli import options as words
from paddock.cli.attach import Detached, Running
from paddock.cli.main import say_open, warn
from paddock.client import Paddock
from paddock.errors import PaddockError, UserError
from paddock.model import Budget, Enforcement, ExecSpec, Lent, Network, TtySize, WorkspaceMode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.cli.prompting import Prompts
    from paddock.client import Box, Command
    from paddock.model import BoxInfo, BoxRequest, LimitReport

_AT_CREATION = (
    "name", "volume", "cpus", "memory", "pids", "disk", "publish", "review", "clone", "branch", "mask", "writable",
    "ssh_key", "allow_login",
)  # fmt: skip


def run(options: argparse.Namespace) -> int:
    if options.rm and options.detach:
        raise UserError("--rm and --detach exclude each other", hint="`paddock rm -f` removes the box", code="usage")
    if not options.what and not options.command:
        hint = "`paddock run -- COMMAND` or `paddock run shell .`"
        raise UserError("nothing to run", hint=hint, code="no-command")
    with Paddock() as paddock:
        return _run_agent(paddock, options) if options.what else _run_command(paddock, options)


def _exec_spec(
    options: argparse.Namespace, argv: Sequence[str], env: dict[str, str] | None = None, box: Box | None = None
) -> ExecSpec:
    """For a box that may have been there before, -w is said once more: from its workspace, as when it was made."""
    is_tty = terminal.is_terminal() and not options.detach
    rows, cols = terminal.size()
    return ExecSpec(
        argv=tuple(argv),
        env={**environment.of_terminal(is_tty=is_tty), **(env or {})},
        cwd=os.path.join(box.info.workspace, options.workdir) if box and options.workdir else "",
        tty=TtySize(rows=rows, cols=cols) if is_tty else None,
        stdin=not options.detach,
        detach=options.detach,
        timeout_s=words.limits(options).wall_s,
    )


# -- run -- COMMAND ----------------------------------------------------------------------------------------------------


def _run_command(paddock: Paddock, options: argparse.Namespace) -> int:
    view = words.mode(options)
    _refuse_rm(view, options)
    is_kept = bool(options.detach or options.name or view is not WorkspaceMode.LIVE) and not options.rm
    request, lent = _request(paddock, options, agent="shell", ephemeral=not is_kept)
    if not is_kept:
        command = paddock.start_run(request, _exec_spec(options, options.command), lent.given)
        _announce(command.box, options)
        _warn_about_limits(command.box.limits)
        return _finish(paddock, command, options)
    box, is_new = _named_box(paddock, request, lent, options)
    spec = _exec_spec(options, options.command, {} if is_new else request.env, box)
    if is_new:
        _warn_about_limits(box.refresh().limits)
    if options.detach:
        print(f"{box.name}/{_detach(box, spec, is_new=is_new)}")
        _say_earlier(box, options)
        return 0
    command = box.start(spec)
    _announce(command.box, options)
    return _finish(paddock, command, options)


def _refuse_rm(mode: WorkspaceMode, options: argparse.Namespace) -> None:
    if mode is not WorkspaceMode.LIVE and options.rm:
        message = f"--rm would remove what the box did in its {mode.value}"
        raise UserError(message, hint="leave one out; `paddock rm` removes the box", code="usage")


def _request(paddock: Paddock, options: argparse.Namespace, *, agent: str, ephemeral: bool) -> tuple[BoxRequest, Lent]:
    """What is asked for, with the secrets of it and the values that our environment has."""
    from dataclasses import replace

    lent = _lent(paddock, options)
    request = replace(words.request(options, agent=agent, ephemeral=ephemeral), secrets=lent.uses)
    if options.ssh_key:
        from paddock.cli import sshkeys

        request = replace(request, ssh_keys=sshkeys.chosen(options.ssh_key), ssh_socket=sshkeys.own_socket())
    return request, lent


def _lent(paddock: Paddock, options: argparse.Namespace) -> Lent:
    if not options.secret:
        return Lent()
    from paddock.cli import lending

    return lending.of(paddock, options)


def _lend_again(paddock: Paddock, info: BoxInfo, lent: Lent, options: argparse.Namespace) -> None:
    """To a box that exists: secrets, what our environment has now, and what it may spend if that was said."""
    if info.secrets or lent.uses:
        from paddock.cli import lending

        lending.again(paddock, info, lent, options)
    if info.ssh_keys and (path := os.environ.get("SSH_AUTH_SOCK")):
        paddock.call("ssh_agent", box=info.id, path=os.path.realpath(path))
    budget = words.budget(options)
    if budget != Budget():
        paddock.call("budget", box=info.name, budget=budget)


def _named_box(paddock: Paddock, request: BoxRequest, lent: Lent, options: argparse.Namespace) -> tuple[Box, bool]:
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
    _lend_again(paddock, info, lent, options)
    return _with_network(paddock.get(info.name), options), False


def _detach(box: Box, spec: ExecSpec, *, is_new: bool) -> str:
    try:
        return box.detach_spec(spec)
    except PaddockError:
        if is_new:  # a box that was made for a command that cannot be started
            box.remove(force=True)
        raise


# -- run AGENT|BOX -----------------------------------------------------------------------------------------------------


def _run_agent(paddock: Paddock, options: argparse.Namespace) -> int:
    from dataclasses import replace

    _refuse_rm(words.mode(options), options)
    box = _agent_box(paddock, options)
    _refuse_rm(box.info.mode, options)
    spec = _exec_spec(options, ["agent"], box=box)
    if options.detach:
        print(f"{box.name}/{box.detach_session(spec, options.command)}")
        _say_earlier(box, options)
        return 0
    command = box.session(replace(spec, keep=spec.tty is not None), options.command)
    _announce(command.box, options)
    try:
        return _finish(paddock, command, options, detachable=True)
    except Detached:
        print(f"\ndetached; `paddock run {box.name}` returns", file=sys.stderr)
        options.rm = False
        return 0
    finally:
        if options.rm:
            _remove(box)


def _remove(box: Box) -> None:
    """The command's own outcome stands; a box whose commits cannot come home is not removed for it."""
    from paddock.cli import leaving

    try:
        leaving.say(box.stop(0.0), box.info.workspace)
        leaving.say_removed(box.remove(), box.info.workspace)
    except UserError as error:
        warn(f"the box stays: {error.message}; {error.hint}")


def _agent_box(paddock: Paddock, options: argparse.Namespace) -> Box:
    """The first word is an agent, or the name of a box that exists."""
    from paddock import agents

    known = {info.name: info for info in paddock.ls()}
    if options.what in known:
        return _known_box(paddock, known[options.what], options)
    if options.what not in agents.RESERVED:
        raise UserError(
            f"no agent and no box named {options.what!r}",
            hint=f"agents: {', '.join(agents.names())}; `paddock ls` lists boxes; `paddock run -- CMD` runs a command",
            code="unknown-agent",
        )
    request, lent = _request(paddock, options, agent=options.what, ephemeral=False)
    box, is_new = paddock.open(request, lent.given)
    if is_new:
        _warn_about_limits(box.refresh().limits)
    else:
        _lend_again(paddock, known.get(box.name, box.info), lent, options)
    return box


def _known_box(paddock: Paddock, info: BoxInfo, options: argparse.Namespace) -> Box:
    if options.workspace or options.extra:
        hint = f"`paddock run {info.name}` without a directory"
        raise UserError(f"the box {info.name!r} has its workspace already", hint=hint, code="usage")
    _refuse_creation_options(info, options)
    _lend_again(paddock, info, _lent(paddock, options), options)
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


# -- create ------------------------------------------------------------------------------------------------------------


def create(options: argparse.Namespace) -> int:
    from paddock import agents

    agent, name = options.what, options.name
    if agent in agents.RESERVED:
        if options.agent and options.agent != agent:
            raise UserError(f"two agents: {agent!r} and {options.agent!r}", hint="give one", code="usage")
    else:
        if name and name != agent:
            raise UserError(f"two names: {agent!r} and {name!r}", hint="give one", code="usage")
        agent, name = options.agent or agents.DEFAULT, agent
    options.name = name
    with Paddock() as paddock:
        request, lent = _request(paddock, options, agent=agent, ephemeral=False)
        box = paddock.box(paddock.call("create", request=request, given=lent.given))
        _warn_about_limits(box.refresh().limits)
        print(box.name)
    return 0


# -- both --------------------------------------------------------------------------------------------------------------


def _running(paddock: Paddock, command: Command) -> Running:
    info = command.box
    return Running(
        lambda verb, args: paddock.call(verb, **args),
        (info.id, info.name),
        command.channel,
        _prompts(paddock, info),
        budget=info.budget != Budget(),
    )


def _prompts(paddock: Paddock, box: BoxInfo) -> Prompts | None:
    """Without a terminal nobody can be asked: the box's connections are refused, and `policy pending` lists them."""
    if box.network != "ask" or not terminal.is_terminal():
        return None
    from paddock.cli.prompting import Prompts

    return Prompts(paddock.attend(box.id), paddock.policy.answer)


def _finish(paddock: Paddock, command: Command, options: argparse.Namespace, *, detachable: bool = False) -> int:
    """To the end of the command, and then what the box left."""
    from paddock.cli import leaving

    leaving.say_notes(command.notes, quiet=options.quiet)
    if command.box.untold:
        leaving.say_earlier(paddock.named(command.box.name), quiet=options.quiet)
    code = outcome.finish(_running(paddock, command), stdin=True, detachable=detachable)
    leaving.say_left(command, quiet=options.quiet)
    return code


def _say_earlier(box: Box, options: argparse.Namespace) -> None:
    if box.info.untold:
        from paddock.cli import leaving

        leaving.say_earlier(box, quiet=options.quiet)


def _announce(box: BoxInfo, options: argparse.Namespace) -> None:
    """The tier in one word, where a person is looking; that a box is open is said to everybody."""
    say_open(box.network)
    if box.logins and not options.quiet:
        warn(f"token inside: whatever runs in {box.name} can read what a login of {', '.join(box.logins)} leaves there")
    if not options.quiet and os.isatty(2):
        mode = "" if box.mode is WorkspaceMode.LIVE else f", {box.mode.value}"
        print(f"paddock: {box.engine.value} box {box.name}{mode}, network: {box.network}", file=sys.stderr)


def _warn_about_limits(reports: Sequence[LimitReport]) -> None:
    for report in reports:
        if report.enforcement is Enforcement.NONE and report.note:
            warn(report.note)

"""run, create, exec."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from paddock import agents, text
from paddock.cli import options as words
from paddock.cli.main import fail, warn
from paddock.client import Paddock
from paddock.client.answers import limit_hint
from paddock.errors import Unavailable, UserError
from paddock.model import BoxInfo, Enforcement, ExecSpec

if TYPE_CHECKING:
    import argparse

    from paddock.client import Box, Command
    from paddock.model import BoxRequest

_KILLED = 128 + 9


def run(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        if options.what:
            return _run_agent(paddock, options)
        if not options.command:
            raise UserError(
                "nothing to run", hint="`paddock run -- COMMAND` or `paddock run shell .`", code="no-command"
            )
        return _run_command(paddock, options)


def _run_command(paddock: Paddock, options: argparse.Namespace) -> int:
    from paddock.cli import attach

    request = words.request(options, agent=agents.DEFAULT, ephemeral=not (options.detach or options.name))
    is_tty = attach.is_terminal() and not options.detach
    spec = ExecSpec(
        argv=tuple(options.command),
        env=_terminal_environment(is_tty=is_tty),
        tty=attach.terminal_size() if is_tty else None,
        stdin=not options.detach,
        detach=options.detach,
        timeout_s=request.limits.wall_s,
    )
    if request.ephemeral:
        command = paddock.start_run(request, spec)
        _announce(command.box, options)
        _warn_about_limits(command.box)
        return _finish(command, stdin=True, detachable=False)
    box = _new_or_named(paddock, request)
    return _start(paddock, box, spec, options)


def _new_or_named(paddock: Paddock, request: BoxRequest) -> Box:
    known = {info.name for info in paddock.ls()}
    if request.name in known:
        return paddock.get(request.name)
    box = paddock.box(paddock.call("create", request=request))
    _warn_about_limits(box.info)
    return box


def _run_agent(paddock: Paddock, options: argparse.Namespace) -> int:
    from paddock.cli import attach

    box = _box_for(paddock, options)
    is_tty = attach.is_terminal() and not options.detach
    limits = words.limits(options)
    spec = ExecSpec(
        argv=("agent",),
        env=_terminal_environment(is_tty=is_tty),
        cwd=options.workdir,
        tty=attach.terminal_size() if is_tty else None,
        stdin=not options.detach,
        keep=is_tty,
        detach=options.detach,
        timeout_s=limits.wall_s,
    )
    if options.detach:
        job = box.detach_session(spec, options.command or ())
        print(f"{box.name}/{job}")
        return 0
    command = box.session(spec, options.command or ())
    _announce(command.box, options)
    code = _finish(command, stdin=True, detachable=True)
    if options.rm:
        box.remove(force=True)
    return code


def _box_for(paddock: Paddock, options: argparse.Namespace) -> Box:
    """The first word is an agent, or the name of a box that exists."""
    known = {info.name: info for info in paddock.ls()}
    if options.what in known:
        if options.workspace or options.extra or options.volume:
            raise UserError(
                f"the box {options.what!r} has its workspace already",
                hint=f"`paddock run {options.what}`",
                code="usage",
            )
        box = paddock.get(options.what)
        if values := words.environment(options):
            box.set_env(values)
        return box
    if options.what not in agents.RESERVED:
        raise UserError(
            f"no agent and no box named {options.what!r}",
            hint=f"agents: {', '.join(agents.names())}; `paddock ls` lists boxes; `paddock run -- CMD` runs a command",
            code="unknown-agent",
        )
    box, _ = paddock.open(words.request(options, agent=options.what, ephemeral=False))
    _warn_about_limits(box.info)
    return box


def create(options: argparse.Namespace) -> int:
    agent, name = options.what, options.name
    if agent not in agents.RESERVED:
        if name and name != agent:
            raise UserError(f"two names: {agent!r} and {name!r}", hint="give one", code="usage")
        agent, name = options.agent or agents.DEFAULT, agent
    options.name = name
    with Paddock() as paddock:
        box = paddock.box(paddock.call("create", request=words.request(options, agent=agent, ephemeral=False)))
        _warn_about_limits(box.info)
        print(box.name)
    return 0


def exec_(options: argparse.Namespace) -> int:
    from paddock.cli import attach

    argv = [*options.words, *(options.command or [])]
    if options.tty and not options.detach and not os.isatty(0):
        raise UserError("-t needs a terminal on standard input", hint="leave -t out", code="no-tty")
    spec = ExecSpec(
        argv=tuple(argv),
        env={**_terminal_environment(is_tty=options.tty), **words.environment(options)},
        cwd=options.workdir,
        user=options.user,
        tty=attach.terminal_size() if options.tty else None,
        stdin=options.interactive or options.tty,
        detach=options.detach,
        timeout_s=text.parse_duration(options.timeout) if options.timeout else None,
    )
    with Paddock() as paddock:
        return _start(paddock, paddock.named(options.box), spec, options)


def _start(paddock: Paddock, box: Box, spec: ExecSpec, options: argparse.Namespace) -> int:
    if spec.detach:
        print(f"{box.name}/{box.detach_spec(spec)}")
        return 0
    del paddock, options
    return _finish(box.start(spec), stdin=spec.stdin, detachable=False)


def _finish(command: Command, *, stdin: bool, detachable: bool) -> int:
    from paddock.cli import attach

    try:
        result = attach.attach(command, stdin=stdin, detachable=detachable)
    except attach.Detached:
        attach.report_detach(command.box.name)
        return 0
    finally:
        command.close()
    if result.timed_out:
        warn("the command was ended: its time was over")
    elif result.exit_code == _KILLED and (reason := command.why_killed()):
        fail(Unavailable(reason, hint=limit_hint(reason)))
    return result.exit_code


def _terminal_environment(*, is_tty: bool) -> dict[str, str]:
    env = words.locale_environment()
    if is_tty:
        env["TERM"] = os.environ.get("TERM", "xterm-256color")
    return env


def _announce(box: BoxInfo, options: argparse.Namespace) -> None:
    """The tier in one word, where a person is looking."""
    if not options.quiet and os.isatty(2):
        print(f"paddock: {box.engine.value} box {box.name}", file=sys.stderr)


def _warn_about_limits(box: BoxInfo) -> None:
    for report in box.limits:
        if report.enforcement is Enforcement.NONE and report.note:
            warn(f"{report.name}: {report.note}")

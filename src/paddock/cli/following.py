"""From the start of a command to its end: what is said before, the relay, and what the box left."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from paddock.cli import environment, outcome, terminal
from paddock.cli import options as words
from paddock.cli.attach import Running
from paddock.cli.main import say_open, warn
from paddock.errors import PaddockError, UserError
from paddock.model import Budget, ExecSpec, TtySize, WorkspaceMode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.cli.prompting import Prompts
    from paddock.client import Box, Command, Paddock
    from paddock.model import BoxInfo


def exec_spec(
    options: argparse.Namespace, argv: Sequence[str], env: dict[str, str] | None = None, box: Box | None = None
) -> ExecSpec:
    """For a box that may have been there before, -w is said once more: from its workspace, as when it was made."""
    is_tty = terminal.is_terminal() and not options.detach
    rows, cols = terminal.size()
    return ExecSpec(
        argv=tuple(argv),
        of_image=not argv,
        env={**environment.of_terminal(is_tty=is_tty), **(env or {})},
        cwd=os.path.join(box.info.workspace, options.workdir) if box and options.workdir else "",
        tty=TtySize(rows=rows, cols=cols) if is_tty else None,
        stdin=not options.detach,
        detach=options.detach,
        timeout_s=words.limits(options).wall_s,
    )


def refuse_rm(mode: WorkspaceMode, options: argparse.Namespace) -> None:
    if mode is not WorkspaceMode.LIVE and options.rm:
        message = f"--rm would remove what the box did in its {mode.value}"
        raise UserError(message, hint="leave one out; `paddock rm` removes the box", code="usage")


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


def finish(
    paddock: Paddock,
    command: Command,
    options: argparse.Namespace,
    *,
    detachable: bool = False,
    hint: bool = True,
) -> int:
    """To the end of the command, and then what the box left. Without `hint` somebody else says what to do next."""
    from paddock.cli import leaving

    leaving.say_notes(command.notes, quiet=options.quiet)
    if command.box.untold:
        leaving.say_earlier(paddock.named(command.box.name), quiet=options.quiet)
    try:
        code = outcome.finish(_running(paddock, command), stdin=True, detachable=detachable)
    except PaddockError as error:
        if error.code != "box-lost":  # that one runs on
            leaving.say_left(command, quiet=options.quiet, hint=False)
        raise
    leaving.say_left(command, quiet=options.quiet, hint=hint)
    return code


def say_earlier(box: Box, options: argparse.Namespace) -> None:
    if box.info.untold:
        from paddock.cli import leaving

        leaving.say_earlier(box, quiet=options.quiet)


def announce(box: BoxInfo, options: argparse.Namespace) -> None:
    """The tier in one word, where a person is looking; that a box is open is said to everybody."""
    say_open(box.network)
    if box.logins and not options.quiet:
        warn(f"token inside: whatever runs in {box.name} can read what a login of {', '.join(box.logins)} leaves there")
    if not options.quiet and os.isatty(2):
        mode = "" if box.mode is WorkspaceMode.LIVE else f", {box.mode.value}"
        tier = "gvisor" if box.runtime == "runsc" else box.engine.value
        print(f"paddock: {tier} box {box.name}{mode}, network: {box.network}", file=sys.stderr)

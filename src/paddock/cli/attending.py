"""From an agent's command that has been started to its end, or until its user leaves it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock.cli import following
from paddock.cli.attach import Detached
from paddock.cli.main import tell
from paddock.client import Paddock
from paddock.client.answers import expect_list, expect_object
from paddock.errors import PaddockError, from_wire

if TYPE_CHECKING:
    import argparse

    from paddock.client import Command


def answered(options: argparse.Namespace, result: object, fds: list[int]) -> int:
    """Of a daemon that started it by one request."""
    answer = expect_object(result)
    tell(map(str, expect_list(answer.get("said"))), options)
    if "error" in answer:
        raise from_wire(answer["error"])
    with Paddock() as paddock:
        return attend(paddock, paddock.joined(answer, fds), options, is_run=answer.get("run") is True)


def attend(paddock: Paddock, command: Command, options: argparse.Namespace, *, is_run: bool) -> int:
    following.announce(command.box, options)
    try:
        return _finish(paddock, command, options, is_run=is_run)
    except Detached:
        print(f"\ndetached; `paddock run {command.box.name}` returns", file=sys.stderr)
        options.rm = False
        return 0


def _finish(paddock: Paddock, command: Command, options: argparse.Namespace, *, is_run: bool) -> int:
    """To the end, and then what became of the run, also when the box was ended."""
    try:
        code = following.finish(paddock, command, options, detachable=True, hint=not is_run)
    except PaddockError:
        if is_run:
            _say_end(paddock, command, options)
        raise
    if is_run:
        _say_end(paddock, command, options)
    return code


def _say_end(paddock: Paddock, command: Command, options: argparse.Namespace) -> None:
    from paddock.cli import runend  # loads much, which the agent need not wait for

    runend.say(paddock, command, options)

"""How a command is followed: its terminal, its directory, and what cannot be asked for together."""

from __future__ import annotations

import argparse

import pytest

from paddock.cli import following
from paddock.errors import UserError
from paddock.model import WorkspaceMode


def options(**rest: object) -> argparse.Namespace:
    usual = {"detach": False, "workdir": "", "timeout": "", "rm": False}
    limits = dict.fromkeys(("memory", "cpus", "pids", "disk"), "")
    return argparse.Namespace(**{**usual, **limits, **rest})


def test_a_detached_command_has_neither_terminal_nor_input() -> None:
    spec = following.exec_spec(options(detach=True, timeout="2m"), ["true"], {"A": "1"})
    assert (spec.tty, spec.stdin, spec.detach, spec.timeout_s, spec.env["A"]) == (None, False, True, 120.0, "1")


def test_a_review_is_not_removed_with_what_was_done_in_it() -> None:
    following.refuse_rm(WorkspaceMode.LIVE, options(rm=True))
    following.refuse_rm(WorkspaceMode.REVIEW, options())
    with pytest.raises(UserError, match="--rm would remove what the box did in its review"):
        following.refuse_rm(WorkspaceMode.REVIEW, options(rm=True))

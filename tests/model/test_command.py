"""A command is one that execve takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.model import ExecResult, ExecSpec, TtySize

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: ExecSpec(argv=()), "no-command"),
        (lambda: ExecSpec(argv=("", "x")), "no-command"),
        (lambda: ExecSpec(argv=("echo", "a\0b")), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "\ud800")), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "x" * limits.ARGV_BYTES)), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "é" * (limits.ARGV_BYTES // 2))), "bad-command"),
        (lambda: ExecSpec(argv=("true",), env={"A": "\0"}), "bad-env"),
        (lambda: ExecSpec(argv=("true",), timeout_s=0), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=-1), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=math.nan), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=math.inf), "bad-timeout"),
        (lambda: TtySize(rows=0, cols=80), "bad-tty"),
        (lambda: TtySize(rows=24, cols=65536), "bad-tty"),
    ],
)
def test_a_value_that_cannot_be_is_never_built(build: Callable[[], object], code: str) -> None:
    with pytest.raises(UserError) as caught:
        build()
    assert caught.value.code == code


def test_the_largest_value_is_built() -> None:
    ExecSpec(argv=("e", "x" * (limits.ARGV_BYTES - 1)), tty=TtySize(rows=65535, cols=65535), timeout_s=0.001)


def test_a_command_is_ok_when_it_exits_with_zero() -> None:
    assert ExecResult(exit_code=0).ok
    assert not ExecResult(exit_code=1).ok

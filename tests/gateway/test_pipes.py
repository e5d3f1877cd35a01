"""Pipes are counted, and none is kept."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from paddock.gateway import pipes as pipes_
from paddock.gateway.pipes import Pipes

if TYPE_CHECKING:
    import pytest

_F_GETPIPE_SZ = 1032


def test_pipes_are_given_back() -> None:
    pipes = Pipes(2)
    taken = [pipes.take(), pipes.take()]
    assert pipes.take() is None
    for pipe in taken:
        assert pipe is not None
        pipes.give_back(pipe)
    assert repr(pipes) == "<Pipes 0 of 2>"


def test_the_first_are_large_and_the_rest_are_as_the_kernel_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes_, "FLOW_LARGE_PIPES_MAX", 1)
    pipes = Pipes(2)
    taken = [pipe for pipe in (pipes.take(), pipes.take()) if pipe is not None]
    large, small = (fcntl.fcntl(write, _F_GETPIPE_SZ) for _, write in taken)
    for pipe in taken:
        pipes.give_back(pipe)
    plain = os.pipe()
    usual = fcntl.fcntl(plain[1], _F_GETPIPE_SZ)
    for fd in plain:
        os.close(fd)
    assert small == usual
    assert large > small


def test_a_pipe_that_cannot_be_had_is_none_and_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_flags: int) -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe2", refuse)
    pipes = Pipes(2)
    assert pipes.take() is None
    assert repr(pipes) == "<Pipes 0 of 2>"

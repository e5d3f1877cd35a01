"""Many bytes out of and into a command, through the SDK and through the command line, beside a bare pipe."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from benches.figures import Figure
from benches.installation import PROGRAM
from benches.timing import interleave, rates
from benches.yardsticks import measured
from paddock.model import ExecSpec

if TYPE_CHECKING:
    from benches.installation import Installation
    from paddock.client import Box

SIZE_BYTES = 256 * 1024 * 1024
ROUNDS = 5
_CHUNK = bytes(1024 * 1024)
_READ_BYTES = 256 * 1024
_SWALLOW = ["sh", "-c", "cat >/dev/null"]
PIPE_OUT, PIPE_IN = "cat into a bare pipe", "a bare pipe into cat"


def measure(installation: Installation) -> list[Figure]:
    big = f"{installation.workspace}/big"
    with open(big, "wb") as file:
        file.writelines(_CHUNK for _ in range(SIZE_BYTES // len(_CHUNK)))
    cli = [PROGRAM, "exec"]
    environ = installation.environ
    with installation.box("bulk") as box:
        spent = interleave(
            {
                "out_sdk": lambda: _read_sdk(box, ["cat", big]),
                "out_cli": lambda: _read([*cli, box.name, "cat", big], environ),
                PIPE_OUT: lambda: _read(["cat", big], environ),
                "in_sdk": lambda: _write_sdk(box, _SWALLOW),
                "in_cli": lambda: _write([*cli, "-i", box.name, *_SWALLOW], environ),
                PIPE_IN: lambda: _write(_SWALLOW, environ),
            },
            ROUNDS,
            warm=1,
        )
    os.unlink(big)
    taken = rates(spent, SIZE_BYTES)
    rows = (
        ("out_sdk", "output of a command through the SDK", PIPE_OUT),
        ("out_cli", "output of a command through ./paddock exec in a pipe", PIPE_OUT),
        ("in_sdk", "input of a command through the SDK", PIPE_IN),
        ("in_cli", "input of a command through ./paddock exec -i in a pipe", PIPE_IN),
    )
    return [
        Figure(name=name, what=what, unit="MB/s", samples=taken[name], yardsticks=measured(taken, pipe))
        for name, what, pipe in rows
    ]


def _read_sdk(box: Box, argv: list[str]) -> None:
    command = box.start(ExecSpec(argv=tuple(argv)))
    try:
        total = sum(len(data) for _, data in command.output())
    finally:
        command.close()
    assert total == SIZE_BYTES


def _write_sdk(box: Box, argv: list[str]) -> None:
    command = box.start(ExecSpec(argv=tuple(argv), stdin=True))
    try:
        for _ in range(SIZE_BYTES // len(_CHUNK)):
            command.write(_CHUNK)
        command.close_stdin()
        assert command.finish().ok
    finally:
        command.close()


def _read(argv: list[str], environ: dict[str, str]) -> None:
    with subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        total = 0
        while data := os.read(process.stdout.fileno(), _READ_BYTES):
            total += len(data)
    assert (process.returncode, total) == (0, SIZE_BYTES)


def _write(argv: list[str], environ: dict[str, str]) -> None:
    with subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0) as process:
        assert process.stdin is not None
        for _ in range(SIZE_BYTES // len(_CHUNK)):
            view = memoryview(_CHUNK)
            while view:
                view = view[os.write(process.stdin.fileno(), view) :]
        process.stdin.close()
    assert process.returncode == 0

"""What a command writes at once is shown at once, however the kernel cuts the stream."""

from __future__ import annotations

import socket
import subprocess
import sys

from paddock import frames

_ATTACH = """
import sys
from types import SimpleNamespace
from paddock.cli import attach
from paddock.client.transport import Channel
command = SimpleNamespace(channel=Channel(int(sys.argv[1])), gone=lambda: SystemExit("gone"))
sys.exit(attach.attach(command, stdin=True, detachable=False).exit_code)
"""


def test_output_that_came_together_with_the_start_is_shown_while_the_command_runs() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        started: frames.Message = {"event": "started", "pid": 7, "id": "job", "tty": False}
        ours.sendall(frames.encode_message(started) + frames.encode(frames.STDOUT, b"ready\n"))
        with subprocess.Popen(
            [sys.executable, "-c", _ATTACH, str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path)},
            pass_fds=[theirs.fileno()],
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            ended: frames.Message = {"event": "exit", "code": 5, "signal": None, "timed_out": False}
            ours.sendall(frames.encode_message(ended))
            assert process.wait(timeout=20) == 5

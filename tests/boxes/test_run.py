"""What a person sees of `run` and `exec`: output, exit codes, input, signals, and nothing left behind."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.CORE


def test_a_command_runs_in_a_box_with_its_own_output_and_exit_code(installation: Installation) -> None:
    done = installation.sh("echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)


def test_standard_input_reaches_the_command_byte_for_byte(installation: Installation) -> None:
    data = os.urandom(3_000_000)
    assert installation.cli("run", "--", "cat", stdin=data).stdout == data


def test_a_run_leaves_no_box_behind(installation: Installation) -> None:
    installation.sh("true")
    until(lambda: installation.cli("ls", "-q").stdout == b"", "the ephemeral box is gone")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -15 $$"], 143),
    ],
)
def test_exit_codes_are_those_of_a_shell(installation: Installation, argv: list[str], code: int) -> None:
    assert installation.cli("run", "--", *argv).returncode == code
    until(lambda: installation.cli("ls", "-q").stdout == b"", "the ephemeral box is gone")


def test_the_workspace_is_at_its_own_path_and_writable(installation: Installation) -> None:
    done = installation.sh("pwd; echo inside > made-inside")
    assert done.stdout.decode().strip() == str(installation.workspace)
    made = installation.workspace / "made-inside"
    assert made.read_text() == "inside\n"
    assert made.stat().st_uid == os.getuid()


def test_a_signal_to_the_cli_reaches_the_command(installation: Installation) -> None:
    # sigwait, because a shell may miss a signal that arrives between two of its commands
    program = (
        "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('ready', flush=True); "
        "signal.sigwait([signal.SIGTERM]); print('caught', flush=True); sys.exit(9)"
    )
    process = installation.spawn("run", "--", "/usr/bin/python3", "-c", program)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert (out, process.returncode) == (b"caught\n", 9)


def test_a_killed_cli_takes_its_ephemeral_box_with_it(installation: Installation) -> None:
    process = installation.spawn("run", "--", "sh", "-c", "echo ready; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.communicate()
    until(lambda: installation.cli("ls", "-q").stdout == b"", "the box of a killed caller is gone")


def test_a_timeout_ends_the_command_with_124(installation: Installation) -> None:
    begun = time.monotonic()
    done = installation.cli("run", "--timeout", "1s", "--", "sh", "-c", "trap '' TERM; sleep 600")
    assert done.returncode == 124
    assert time.monotonic() - begun < 30


def test_exec_runs_in_a_box_that_stays(paddock: Paddock, installation: Installation) -> None:
    box = paddock.create("kept", workspace=str(installation.workspace))
    assert box.exec(["sh", "-c", "echo one > ~/file"]).ok
    assert box.exec(["cat", "/home/agent/file"]).stdout == b"one\n"
    box.stop()
    assert box.exec(["cat", "/home/agent/file"]).stdout == b"one\n"  # started again, home kept


def test_exec_with_a_timeout_ends_daemonised_children_too(paddock: Paddock, installation: Installation) -> None:
    box = paddock.create("timed", workspace=str(installation.workspace))
    script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 987' &) ; (sh -c 'sleep 986 & sleep 985' &); sleep 600"
    result = box.exec(["sh", "-c", script], timeout_s=1.0)
    assert (result.exit_code, result.timed_out) == (124, True)
    listing = box.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
    assert b"sleep 98" not in listing

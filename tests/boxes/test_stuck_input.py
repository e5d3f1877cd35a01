"""A command that does not read its input can still be interrupted."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import PROGRAM, until

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.CORE


def test_an_interrupt_overtakes_input_that_nobody_reads(installation: Installation) -> None:
    import subprocess

    with open("/dev/zero", "rb") as endless:
        running = subprocess.Popen(
            [PROGRAM, "run", "--", "sleep", "100"],
            stdin=endless,
            cwd=installation.workspace,
            env=installation.environ,
        )
    until(lambda: installation.cli("ls", "-q").stdout != b"", "the box runs")
    time.sleep(0.3)  # nothing tells that the input is stuck
    running.send_signal(signal.SIGINT)
    assert running.wait(20) == 130

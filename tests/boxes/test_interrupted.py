"""A person presses ctrl-c while the SDK waits for an answer, and goes on using it."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.CORE


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def test_an_interrupted_call_does_not_answer_the_next_one(paddock: Paddock, installation: Installation) -> None:
    box = paddock.create("slow", workspace=str(installation.workspace))
    box.detach(["sh", "-c", "trap '' TERM; echo > deaf; sleep 600"])
    until((installation.workspace / "deaf").exists, "the command takes no notice of SIGTERM")
    previous = signal.signal(signal.SIGUSR1, _interrupt)  # SIGALRM is the test runner's
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            box.stop(grace_s=2.0)
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR1, previous)
    assert paddock.get("slow").name == "slow"

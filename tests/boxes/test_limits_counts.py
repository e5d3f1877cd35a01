"""What the kernel counts per user or per machine: one box takes its share of it, and leaves the rest. RES-04."""

from __future__ import annotations

import os
import resource
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from tests.support import bombs, contract
from tests.support.attack import twin
from tests.support.worlds import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

SLACK = 8  # what init and the program itself have open
ALL = {
    "open files": min(limits.OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
    "inotify instances": limits.INOTIFY_INSTANCES,
    "inotify watches": limits.INOTIFY_WATCHES,
    "terminals": limits.TERMINALS_PER_BOX,
    "timers": limits.SIGNALS_PER_BOX,
    "semaphores": 128,
    "message queues": 128,
    "names in memory": limits.TMPFS_ENTRIES,
}
IN_ITS_OWN_NAMESPACE = {"semaphores", "message queues", "names in memory"}  # the host's are others by construction
FEW = 5  # the user has 128 of some, of which other boxes and daemons have theirs

SET_LIMIT = "say(attempt(lambda: open('/proc/sys/kernel/msgmni', 'w').write('128')))"


def held(stack: ExitStack, process: subprocess.Popen[bytes]) -> int:
    """How many a program got; it keeps them until the stack ends."""
    stack.enter_context(process)
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.parametrize("kind", sorted(bombs.COUNTS))
def test_a_box_gets_its_share_and_others_theirs(installation: Installation, tmp_path: Path, kind: str) -> None:
    program = [PYTHON, "-c", bombs.counting(kind)]
    if kind in {"semaphores", "message queues"} and twin(SET_LIMIT) != "ok":
        pytest.skip("this kernel keeps System V limits to the host's root")

    def box(most: int) -> subprocess.Popen[bytes]:
        return installation.spawn("run", "-e", f"MOST={most}", "-e", "PLACE=/dev/shm", "--", *program)

    with ExitStack() as stack:
        greedy = held(stack, box(ALL[kind] + 10_000))
        assert ALL[kind] - SLACK <= greedy <= ALL[kind]
        assert held(stack, box(FEW)) == FEW
        if kind not in IN_ITS_OWN_NAMESPACE:
            env = {**os.environ, "MOST": str(FEW), "PLACE": str(tmp_path)}
            host = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
            assert held(stack, host) == FEW

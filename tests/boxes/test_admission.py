"""A hundred boxes at once: all of them work, nobody else waits, and the queue can be seen. RES-06."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.client import AsyncPaddock
from paddock.errors import PaddockError
from tests.support import contract
from tests.support.installation import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

BOXES = 100

# A process of its own, so that it measures the daemon and not the clients beside it.
WATCHER = """
import json, select, sys, time
from paddock.client import Paddock
times, starting = [], 0
with Paddock(home=sys.argv[1]) as paddock:
    paddock.call("status")
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.005)[0]:
        began = time.perf_counter()
        starting = max(starting, paddock.call("status")["starting"])
        times.append(time.perf_counter() - began)
print(json.dumps({"p99": sorted(times)[int(len(times) * 0.99)], "starting": starting}))
"""


def watched(installation: Installation, work: Callable[[], None]) -> tuple[float, int]:
    """Do the work; how long an answer took meanwhile (99th of a hundred), and how many boxes were seen starting."""
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHER, str(installation.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**installation.environ, "PYTHONPATH": f"{ROOT}/src"},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        work()
        out, _ = process.communicate(b"\n", timeout=30)
    seen = json.loads(out)
    return seen["p99"], seen["starting"]


async def create_and_exec(paddock: AsyncPaddock, workspace: str, number: int) -> bytes:
    box = await paddock.create(f"box-{number}", workspace=workspace)
    return (await box.exec(["sh", "-c", "echo $PADDOCK_BOX"])).stdout


async def run(paddock: AsyncPaddock, workspace: str, number: int) -> bytes:
    return (await paddock.run(["echo", f"box-{number}"], workspace=workspace)).stdout


@pytest.mark.parametrize("act", [create_and_exec, run])
def test_a_hundred_boxes_at_once_all_work_and_delay_no_answer(
    installation: Installation, act: Callable[[AsyncPaddock, str, int], Coroutine[None, None, bytes]]
) -> None:
    async def one(number: int) -> bytes:
        async with AsyncPaddock(home=str(installation.home)) as paddock:
            return await act(paddock, str(installation.workspace), number)

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*map(one, range(BOXES)))

    outputs: list[bytes] = []
    p99_s, starting = watched(installation, lambda: outputs.extend(asyncio.run(all_at_once())))
    assert outputs == [b"box-%d\n" % number for number in range(BOXES)]
    assert p99_s < 1.0, "it answers within milliseconds; the machine may have other work"
    assert starting > limits.STARTS_MAX, "the boxes that wait are not told"


def test_boxes_that_cannot_start_give_their_places_back(installation: Installation) -> None:
    gone = installation.workspace / "gone"
    gone.mkdir()
    with installation.sdk() as sdk:
        boxes = [sdk.create(f"bad-{number}", workspace=str(gone)) for number in range(2 * limits.STARTS_MAX)]
        gone.rmdir()
        for box in boxes:
            with pytest.raises(PaddockError):
                box.exec(["true"])
        assert sdk.run(["echo", "well"], workspace=str(installation.workspace)).stdout == b"well\n"

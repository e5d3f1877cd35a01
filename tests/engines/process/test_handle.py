"""A living process box is held by its pidfd, and nobody else's process is taken for one."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import proc
from paddock.engines.process import handle
from paddock.errors import Unavailable
from paddock.model import Evidence, WorkspaceMode
from tests.support.engine import made, placed, within
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.engine import ProcessEngine
    from paddock.engines.process.warm import Launcher


box = pytest.mark.box


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(pid=os.getpid(), start_ticks=1, boot_id="current"),
        Evidence(pid=4_000_000, start_ticks=1, boot_id="current"),
        Evidence(pid=1, start_ticks=0, boot_id="another boot"),
        None,
    ],
)
def test_nobody_elses_process_is_taken_for_a_box(host: Path, evidence: Evidence | None) -> None:
    one, _ = made(host)
    if evidence is not None and evidence.boot_id == "current":
        evidence = dataclasses.replace(evidence, boot_id=proc.boot_id())
    before = len(os.listdir("/proc/self/fd"))
    assert one.adopt(placed(host), evidence) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_is_held_found_and_ended(host: Path) -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        held = handle.hold(placed(host), pid)
        found = handle.find(placed(host), held.evidence)
        assert found is not None
        assert (found.evidence, repr(found)) == (held.evidence, f"<ProcessHandle one pid {pid}>")
        assert not held.ended()
        held.kill()
        until(held.ended, "it is gone")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    held.kill()
    held.close()
    found.close()
    assert handle.find(placed(host), held.evidence) is None
    with pytest.raises(Unavailable, match="ended while it started"):
        handle.hold(placed(host), pid)


@box
def test_a_review_box_that_is_found_again_can_be_told_to_look(host: Path) -> None:
    placement = placed(host, mode=WorkspaceMode.REVIEW)

    async def act(one: ProcessEngine, _: Launcher) -> None:
        handle = await one.start(placement)
        found = await asyncio.to_thread(one.adopt, placement, handle.evidence)
        assert found is not None
        assert len(found.overlays) == 1
        assert found.refresh()
        os.close(found.overlays.pop())
        assert not found.refresh(), "without a handle it has to be started anew"
        found.overlays.append(os.open("/dev/null", os.O_RDONLY))
        assert not found.refresh(), "what a box gave may be anything"
        handle.kill()
        for each in (handle, found):
            each.close()

    within(host, act)


@box
def test_a_live_box_has_nothing_to_look_at_again(host: Path) -> None:
    async def act(one: ProcessEngine, _: Launcher) -> None:
        handle = await one.start(placed(host))
        assert (handle.overlays, handle.refresh()) == ([], True)
        handle.kill()
        handle.close()

    within(host, act)

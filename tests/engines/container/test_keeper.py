"""The keeper: a box ends with it and it with the box, nobody in the box sees it, and it says why a start failed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.engines.process import init_socket
from paddock.errors import Unavailable
from tests.engines.container.boxes import placed, run, within
from tests.support.installation import children, until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.container.engine import ContainerEngine

pytestmark = [pytest.mark.box, pytest.mark.container]


def test_a_box_is_found_again_by_its_keeper_and_ends_with_its_init(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root)

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        again = engine.adopt(placement, None)
        assert again is not None
        assert again.evidence == handle.evidence
        again.close()
        (first,) = children(handle.evidence.pid)
        assert (
            await asyncio.to_thread(
                run, engine, placement, "sh", "-c", "kill -9 1; kill -2 1; kill -15 1; sleep 0.1; echo alive"
            )
        )[1] == "alive\n"
        os.kill(first, 9)  # from outside it is a process as others are
        until(handle.ended, "the keeper ended too")
        handle.close()
        assert engine.adopt(placement, None) is None

    within(tmp_path, act)


def test_it_takes_no_commands(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root)

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        with init_socket.connect(placement, init_socket.KEEPER) as channel:
            channel.settimeout(10)
            channel.sendall(frames.encode_message({"op": "start", "id": "a", "argv": ["true"], "env": {}, "cwd": "/"}))
            assert b"unknown" in channel.recv(4096)
        handle.kill()
        until(handle.ended, "the box is gone")
        handle.close()

    within(tmp_path, act)


def test_what_the_runtime_says_reaches_whoever_started_the_box(tmp_path: Path, root: Path) -> None:
    """The act that succeeds elsewhere, with a root in which init's place is a file."""
    (tmp_path / "second/proc").parent.mkdir()
    (tmp_path / "second/proc").write_text("no directory\n")
    placement = placed(tmp_path, root)
    placement = replace(placement, spec=replace(placement.spec, layers=(str(root), f"{tmp_path}/second")))

    async def act(engine: ContainerEngine) -> None:
        with pytest.raises(Unavailable, match="/proc"):
            await engine.start(placement)

    within(tmp_path, act)

"""Two states of boxes are compared part by part."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.runtime import differing, forking, freezing
from tests.support.killing import stopped_box, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_a_checkpoint_differs_from_its_box_by_what_was_done_since(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await freezing.create(runtime, box, "first")
        assert await differing.difference(runtime, "mine@first", "mine") == ([], True)
        write(box, "two")
        found, is_all = await differing.difference(runtime, "mine@first", "mine")
        assert is_all
        assert {(one.kind, one.path) for one in found if "file" in one.path or "/etc/" in one.path} == {
            ("changed", "/home/agent/sub/file"),
            ("added", "/etc/below"),
            ("added", "/etc/two"),
            ("changed", "/etc/same"),
        }
        back, _ = await differing.difference(runtime, "mine", "mine@first")
        assert ("removed", "/etc/two") in {(one.kind, one.path) for one in back}
        assert await differing.difference(runtime, "mine", "mine") == ([], True)
        with pytest.raises(UserError, match="no checkpoint"):
            await differing.difference(runtime, "mine@none", "mine")

    within(home, act)


def test_who_compares_two_boxes_the_other_way_round_is_not_waited_for_for_ever(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        (fork,) = await forking.fork(runtime, "mine")
        async with box.lock, fork.lock:
            pairs = ((box.name, fork.name), (fork.name, box.name))
            waiting = [asyncio.create_task(differing.difference(runtime, *pair)) for pair in pairs]
            while sum(len(one.lock._waiters or ()) for one in (box, fork)) < len(waiting):
                await asyncio.sleep(0.001)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [([], True)] * 2

    within(home, act)


def test_a_box_by_its_name_and_by_its_id_is_one_box(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        same = differing.difference(runtime, "mine", runtime.find("mine").row.id)
        assert await asyncio.wait_for(same, 60) == ([], True)

    within(home, act)

"""One box as the daemon holds it."""

from __future__ import annotations

import asyncio

from paddock.engines.process.handle import ProcessHandle
from paddock.model import BoxId, BoxSpec, BoxState, Evidence, Limits, Mount
from paddock.runtime.box import Box
from paddock.store import BoxRow

SPEC = BoxSpec(
    name="mine",
    agent="shell",
    workspace="/w",
    mounts=(Mount(source="/a", target="/b"),),
    env={"Z": "1", "A": "hidden-value"},
    limits=Limits(pids=3),
    workdir="/w/sub",
)


def _box(state: BoxState, reason: str = "") -> Box:
    row = BoxRow(id=BoxId("abc"), position=5, spec=SPEC, state=state, reason=reason, created_at="now")
    return Box(row, "/boxes/abc")


def test_a_box_without_a_handle_is_what_its_row_says() -> None:
    async def act() -> None:
        box = _box(BoxState.FAILED, "memory")
        assert (box.state, box.info().reason, box.info().pid) == (BoxState.FAILED, "memory", None)
        assert box.ended.is_set()
        assert repr(box) == "<Box mine failed>"

    asyncio.run(act())


def test_a_box_with_a_handle_runs_whatever_its_row_says() -> None:
    async def act() -> None:
        box = _box(BoxState.FAILED, "memory")
        box.handle = ProcessHandle(box.placement, Evidence(pid=42, start_ticks=1, boot_id="b"), -1)
        assert (box.state, box.info().reason, box.info().pid) == (BoxState.RUNNING, "", 42)

    asyncio.run(act())


def test_what_is_shown_of_a_box_has_names_of_variables_and_no_values() -> None:
    async def act() -> None:
        info = _box(BoxState.CREATED).info()
        assert info.env_names == ("A", "Z")
        assert "hidden-value" not in repr(info)
        assert (info.name, info.workdir, info.mounts) == ("mine", "/w/sub", SPEC.mounts)

    asyncio.run(act())


def test_its_placement_is_its_row_and_its_directory() -> None:
    async def act() -> None:
        placement = _box(BoxState.CREATED).placement
        assert (placement.id, placement.index, placement.directory) == ("abc", 5, "/boxes/abc")
        assert placement.spec is SPEC

    asyncio.run(act())

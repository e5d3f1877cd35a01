"""Which tools a box has is decided at its start, and known again by the next daemon."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import agents, tools
from paddock.model import BoxId, BoxSpec, BoxState
from paddock.paths import Paths
from paddock.runtime import tooling
from paddock.runtime.box import Box
from paddock.store import BoxRow
from tests.support.tools import agent, publish, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths({"PADDOCK_HOME": str(tmp_path)})


def _within(tmp_path: Path, act: Callable[[Box], None], **rest: object) -> None:
    async def run() -> None:
        spec = replace(BoxSpec(name="mine", agent="demo", workspace="/w"), **rest)  # type: ignore[arg-type]
        (tmp_path / "box").mkdir()
        row = BoxRow(id=BoxId("abc"), position=5, spec=spec, state=BoxState.CREATED, reason="", created_at="now")
        act(Box(row, str(tmp_path / "box")))

    asyncio.run(run())


def test_each_start_takes_what_is_current(tmp_path: Path, paths: Paths) -> None:
    def act(box: Box) -> None:
        tooling.take(box, agent(), paths)
        assert list((tmp_path / "box").iterdir()) == []
        for version in ("1.0.0", "2.0.0"):
            tool = publish(tmp_path / "state", version)
            tooling.take(box, agent(), paths)
            assert box.tools == (tool.mount,) == box.placement.tools == tooling.kept(box)
        tooling.take(box, agent(install=""), paths)
        assert len(box.tools) == len(tooling.kept(box)) == 0

    _within(tmp_path, act)


def test_a_box_may_be_given_the_tool_of_another_agent(tmp_path: Path, paths: Paths) -> None:
    tool = publish(tmp_path / "state")

    def act(box: Box) -> None:
        tooling.take(box, agents.find("shell").agent, paths)
        assert box.tools == (tool.mount,)

    _within(tmp_path, act, agent="shell", tools=("demo", "nothing-of-that-name"))


def test_a_shell_has_none(tmp_path: Path, paths: Paths) -> None:
    publish(tmp_path / "state", name="shell", package="demo")

    def act(box: Box) -> None:
        tooling.take(box, agents.find("shell").agent, paths)
        assert box.tools == ()

    _within(tmp_path, act, agent="shell")


def test_the_version_is_that_of_what_the_box_has(tmp_path: Path, paths: Paths) -> None:
    place = tmp_path / "programs/bin"
    place.mkdir(parents=True)
    put(place)

    def act(box: Box) -> None:
        assert tooling.version_of(box, agent(), paths) == ""
        found = tools.located(agent(), paths, str(place), str(tmp_path))
        assert found is not None
        tools.Probes(paths.probes).keep(found.identity, tools.Probe(version="0.9"))
        assert tooling.version_of(box, agent(), paths) == "0.9"
        publish(tmp_path / "state", "1.0.0")
        tooling.take(box, agent(), paths)
        publish(tmp_path / "state", "2.0.0")
        assert tooling.version_of(box, agent(), paths) == "1.0.0"

    (tmp_path / "state").mkdir()
    _within(tmp_path, act, caller_path=str(place), caller_home=str(tmp_path))


@pytest.mark.parametrize("damage", ["", "{", "3", "[3]", '[{"source": 1}]'])
def test_a_damaged_note_means_none(tmp_path: Path, damage: str) -> None:
    def act(box: Box) -> None:
        (tmp_path / "box/tools.json").write_text(damage)
        assert tooling.kept(box) == ()

    _within(tmp_path, act)


def test_who_is_being_started_with_a_tool_uses_it(tmp_path: Path, paths: Paths) -> None:
    tool = publish(tmp_path / "state")

    def act(box: Box) -> None:
        tooling.take(box, agent(), paths)
        assert tooling.users([box], tool.tree) == ()
        box.in_place = True
        assert tooling.users([box], tool.tree) == ("mine",)
        assert tooling.users([box], f"{tool.tree}2") == ()

    _within(tmp_path, act)

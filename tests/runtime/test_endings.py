"""Why boxes ended, told to whoever asks afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.runtime import endings
from paddock.runtime.box import Ending
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


def test_the_ending_of_a_box_nobody_knows_is_a_plain_one(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        assert await runtime.lifetimes.endings.of("gone") == Ending(reason="", exit_code=137)

    within(tmp_path, act)


def test_an_ending_is_told_after_the_box_is_gone(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        kept = runtime.lifetimes.endings
        box = await runtime.create(request(workspace, name="mine"))
        kept.keep(box, Ending(reason="memory limit", exit_code=137))
        await runtime.remove("mine", force=False)
        assert await kept.of(box.row.id) == Ending(reason="memory limit", exit_code=137)
        assert await kept.killed(box.row.id) == "memory limit"
        assert await kept.killed("nobody") == ""

    within(tmp_path, act)


def test_the_oldest_endings_are_forgotten(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "_KEPT", 2)

    async def act(runtime: Runtime) -> None:
        kept = runtime.lifetimes.endings
        boxes: list[Box] = [await runtime.create(request(workspace, ephemeral=True)) for _ in range(3)]
        for box in boxes:
            kept.keep(box, Ending(reason="memory limit", exit_code=137))
        assert [await kept.killed(box.row.id) for box in boxes] == ["", "memory limit", "memory limit"]
        assert repr(kept) == "<Endings 2>"

    within(tmp_path, act)


def test_a_box_that_does_not_end_has_no_ending(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "_SETTLE_S", 0.01)

    async def act(runtime: Runtime) -> None:
        kept = runtime.lifetimes.endings
        box = await runtime.create(request(workspace, ephemeral=True))
        box.ended.clear()
        assert (await kept.of(box.row.id)).exit_code == 125
        assert await kept.killed(box.row.id) == ""
        box.ended.set()
        kept.keep(box, Ending(reason="memory limit", exit_code=137))
        assert await kept.killed(box.row.id) == "memory limit"

    within(tmp_path, act)

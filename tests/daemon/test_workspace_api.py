"""The daemon's verbs about workspaces are strict about their arguments and name a box that is not there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.daemon import api, workspace_api
from paddock.errors import UserError
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS: dict[str, dict[str, object]] = {
    "left": {"box": "nobody"},
    "pending": {"box": "nobody"},
    "touched": {"box": "nobody", "why": "x"},
    "git_fetch": {"box": "nobody"},
    "git_log": {"box": "nobody"},
}


def test_every_verb_is_tried_here() -> None:
    assert ARGUMENTS.keys() == workspace_api.VERBS.keys()


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_verb_refuses_what_it_does_not_know(tmp_path: Path, verb: str) -> None:
    async def run() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(UserError, match="more"):
                await api.call(runtime, verb, {**ARGUMENTS[verb], "more": 1})
            with pytest.raises(UserError, match="box"):
                await api.call(runtime, verb, {})

    asyncio.run(run())


@pytest.mark.parametrize("verb", sorted(ARGUMENTS.keys() - {"left"}))
def test_a_box_that_is_not_there_is_named(tmp_path: Path, verb: str) -> None:
    async def run() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(UserError, match="no box named 'nobody'"):
                await api.call(runtime, verb, ARGUMENTS[verb])

    asyncio.run(run())


def test_a_box_that_was_touched_while_it_does_not_run_has_nothing_to_look_at_again(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def run() -> None:
        async with running(tmp_path) as runtime:
            box = await runtime.create(request(workspace, name="mine"))
            await api.call(runtime, "touched", {"box": "mine", "why": "x"})
            assert box.sight.take() == ""

    asyncio.run(run())

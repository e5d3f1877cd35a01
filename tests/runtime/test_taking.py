"""Boxes wait for their own secrets, and for nobody else's."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock.model import BoxRequest
from paddock.runtime.taking import Taking
from tests.support.serving import within

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from paddock.runtime import Runtime


def test_each_waits_for_its_own_and_the_last_that_was_begun_counts(
    tmp_path: Path, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(BoxRequest(workspace=os.fspath(workspace)))
        other = await runtime.create(BoxRequest(workspace=os.fspath(workspace)))
        taking, go, done = Taking(), asyncio.Event(), list[str]()

        async def work(word: str) -> None:
            await go.wait()
            done.append(word)

        async def fail() -> None:
            raise ValueError("no")

        taking.begin(box, work("first"))
        taking.begin(box, work("second"))
        assert (box in taking, other in taking, repr(taking)) == (True, False, "<Taking 1 boxes>")
        await taking.settled(other)
        assert done == []
        go.set()
        await taking.settled(box)
        assert (done, box in taking) == (["second"], False)
        taking.begin(box, fail())
        await taking.settled(box)
        go.clear()
        taking.begin(box, work("third"))
        taking.end(box)
        taking.begin(box, work("fourth"))
        taking.close()
        await taking.settled(box)
        assert done == ["second"]

    within(tmp_path / "home", act)
    assert "were not told" in caplog.text

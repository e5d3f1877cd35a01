"""The daemon says which boxes have a tool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.daemon import api
from paddock.errors import UserError
from paddock.model import Mount
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path


def test_only_boxes_that_run_count(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as runtime:
            (tmp_path / "work").mkdir()
            box = await runtime.create(request(tmp_path / "work"))
            box.tools = (Mount(source="/tools/demo", target="/opt/paddock/demo"),)
            assert (await api.call(runtime, "tool_users", {"tree": "/tools/demo"})).items == ()
            box.in_place = True
            assert (await api.call(runtime, "tool_users", {"tree": "/tools/demo"})).items == (box.name,)
            assert (await api.call(runtime, "tool_users", {"tree": "/tools"})).items == ()
            box.in_place = False
            with pytest.raises(UserError, match="tree"):
                await api.call(runtime, "tool_users", {})

    asyncio.run(run())

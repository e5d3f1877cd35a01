"""The daemon says which boxes have a tool."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest

from paddock.daemon import api
from paddock.errors import UserError
from paddock.model import Mount
from paddock.tools import Probe, Probes
from paddock.tools import located as located_at
from tests.support import tools
from tests.support.serving import request, running


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


def test_a_program_is_known_when_it_was_asked_and_takes_the_words_of_a_run(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as runtime:
            state = Path(runtime.paths.state)
            wanted = {"agent": "demo", "definition": tools.text(), "caller_path": "", "caller_home": "/nowhere"}
            ask = functools.partial(api.call, runtime, "program")
            with pytest.raises(UserError) as caught:
                await ask({**wanted, "argv": []})
            assert caught.value.code == "not-installed"
            tools.publish(state)
            assert (await ask({**wanted, "argv": ["-p", "--full"]})).result is False, "nobody asked it"
            located = located_at(tools.agent(), runtime.paths, "", "/nowhere")
            assert located is not None
            Probes(runtime.paths.probes).keep(located.identity, Probe(version="1.0.0", flags=("-p",)))
            assert (await ask({**wanted, "argv": ["-p"]})).result is True
            with pytest.raises(UserError, match=r"demo 1\.0\.0 has no --full"):
                await ask({**wanted, "argv": ["-p", "--full"]})

    asyncio.run(run())

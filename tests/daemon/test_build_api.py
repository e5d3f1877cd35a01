"""The verbs about builds, by a client that may say anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.support.serving import Peer, error, serving

if TYPE_CHECKING:
    from pathlib import Path


def test_a_request_is_read_strictly_and_a_name_is_one(tmp_path: Path) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            assert error(await peer.ask("template_build", {})) == ("user", "missing-key")
            odd = {"name": "a", "directory": "/d", "privileged": True}
            assert error(await peer.ask("template_build", {"request": odd})) == ("user", "unknown-key")
            assert error(await peer.ask("template_ready", {"name": "UPPER"})) == ("user", "bad-template")
            assert (await peer.ask("template_ready", {"name": "mine:1"}))["result"] == {"ready": True}

    asyncio.run(act())

"""The verbs about templates, by a client that may say anything."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tests.runtime.test_loading import LAYER, home, image, put
from tests.support.serving import Peer, error, serving

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.frames import Message

__all__ = ["home"]


def _one(answer: Message) -> dict[str, object]:
    found = answer["result"]
    assert isinstance(found, list)
    assert len(found) == 1
    assert isinstance(found[0], dict)
    return found[0]


def test_templates_are_loaded_listed_saved_and_removed(home: Path) -> None:
    async def act() -> None:
        async with serving(home) as runtime, Peer(runtime) as peer:
            assert (await peer.ask("template_ls"))["result"] == []
            path = put(home, image(LAYER))
            made = _one(await peer.ask("template_load", {"path": path}))
            assert made["name"] == "team:v1"
            assert (await peer.ask("template_ls"))["result"] == [made]
            found = (await peer.ask("template_inspect", {"template": "team:v1"}))["result"]
            assert isinstance(found, dict)
            assert found == {**made, "disk_bytes": found["disk_bytes"]}
            saved = put(home, b"", "out.tar")
            digest = (await peer.ask("template_save", {"template": "team:v1", "path": saved}))["result"]
            assert str(digest).startswith("sha256:")
            assert error(await peer.ask("template_load", {"path": saved})) == ("user", "exists")
            other = _one(await peer.ask("template_load", {"path": saved, "name": "other"}))
            assert other["digest"]
            assert (await peer.ask("template_rm", {"template": "team:v1"}))["result"] == "team:v1"
            assert error(await peer.ask("template_rm", {"template": "team:v1"})) == ("user", "no-template")
            for word in ("", "../x", "A", "x:y:z", "a" * 300):
                for verb in ("template_rm", "template_inspect"):
                    assert error(await peer.ask(verb, {"template": word})) == ("user", "bad-template")
            for path in ("", "/nonexistent", "/dev/null"):
                assert error(await peer.ask("template_load", {"path": path}))[0] == "user"

    asyncio.run(act())


def test_who_leaves_ends_the_load(home: Path) -> None:
    """Of a pipe that is silent."""
    pipe = home / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)

    async def act() -> None:
        async with serving(home) as runtime:
            async with Peer(runtime) as peer:
                waiting = asyncio.create_task(peer.ask("template_load", {"path": str(pipe), "name": "x"}))
                leases = f"{runtime.paths.layers}/leases"
                while not (os.path.isdir(leases) and os.listdir(leases)):
                    await asyncio.sleep(0.01)
                waiting.cancel()
            while os.listdir(leases):
                await asyncio.sleep(0.01)
            async with Peer(runtime) as peer:
                assert (await peer.ask("template_ls"))["result"] == []

    try:
        asyncio.run(act())
    finally:
        os.close(held)

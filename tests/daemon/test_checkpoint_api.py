"""The verbs about checkpoints, by a client that may say anything."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tests.support.serving import Peer, error, request, serving

if TYPE_CHECKING:
    from pathlib import Path


def test_checkpoints_are_made_listed_and_removed(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            box = await runtime.create(request(workspace, name="mine"))
            assert error(await peer.ask("checkpoint_create", {"box": "mine"})) == ("user", "nothing")
            os.mkdir(f"{box.directory}/home")
            made = (await peer.ask("checkpoint_create", {"box": "mine", "name": "first"}))["result"]
            assert isinstance(made, dict)
            assert (made["box"], made["name"], made["parts"]) == ("mine", "first", ["home"])
            rows = (await peer.ask("checkpoint_ls", {"box": ""}))["result"]
            assert isinstance(rows, list)
            [row] = rows
            assert row["disk_bytes"] > 0
            assert {**row, "disk_bytes": 0} == made

            async def layers() -> list[dict[str, object]]:
                found = (await peer.ask("df", {}))["result"]
                assert isinstance(found, dict)
                return [item for item in found["items"] if item["kind"] == "layer"]

            for name in ("..", "A", "a/b", "@", "x" * 65):
                assert error(await peer.ask("checkpoint_create", {"box": "mine", "name": name})) == ("user", "bad-name")
            for word in ("mine", "mine@", "mine@second", "mine@first@first"):
                assert error(await peer.ask("checkpoint_restore", {"checkpoint": word})) == ("user", "no-checkpoint")
            assert error(await peer.ask("checkpoint_fork", {"source": "mine", "count": -1})) == ("user", "usage")
            assert error(await peer.ask("checkpoint_diff", {"one": "mine", "other": "none@x"})) == ("user", "no-box")
            same = (await peer.ask("checkpoint_diff", {"one": "mine", "other": "mine"}))["result"]
            assert same == {"differences": [], "is_whole": True}
            [layer] = await layers()
            assert layer["is_used"]
            assert (await peer.ask("checkpoint_rm", {"checkpoint": "mine@first"}))["result"] == made
            assert await layers() == [layer], "the box stands on it"
            await runtime.remove("mine", force=True)
            assert (await peer.ask("checkpoint_prune", {}))["result"] == [layer["name"]]
            assert await layers() == []

    asyncio.run(act())

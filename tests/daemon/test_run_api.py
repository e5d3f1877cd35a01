"""The verbs about runs, by a client that may say anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.agents import Turn
from paddock.runtime import runs
from tests.support.serving import Peer, error, request, serving

if TYPE_CHECKING:
    from pathlib import Path


def test_runs_are_listed_shown_and_waited_for(tmp_path: Path, monkeypatch: object) -> None:
    from paddock import limits

    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            assert (await peer.ask("runs", {"box": ""}))["result"] == []
            box = await runtime.create(request(workspace, name="mine"))
            first = await runs.begin(runtime, box, box.agent, Turn(prompt="secret words", headless=True))
            second = await runs.begin(runtime, box, box.agent, Turn())
            listed = await peer.ask("runs", {"box": "mine"})
            rows = listed["result"]
            assert isinstance(rows, list)
            assert {row["id"]: row["mode"] for row in rows} == {first: "headless", second: "interactive"}
            assert "secret words" not in str(listed)
            newest = (await peer.ask("runs", {"box": "", "limit": 1}))["result"]
            assert isinstance(newest, list)
            assert len(newest) == 1
            assert (await peer.ask("runs", {"limit": -5, "box": "other"}))["result"] == []
            shown = (await peer.ask("run_show", {"run": first}))["result"]
            assert isinstance(shown, dict)
            assert (shown["id"], shown["reason"]) == (first, "running")
            waited = (await peer.ask("run_wait", {"run": first}))["result"]
            assert isinstance(waited, dict)
            assert waited["reason"] == "running", "as it is, when that takes too long"
            for run in ("", "..", "zzzz", "f" * 9):
                assert error(await peer.ask("run_show", {"run": run})) == ("user", "no-run")
                assert error(await peer.ask("run_wait", {"run": run})) == ("user", "no-run")
            assert error(await peer.ask("runs", {"boxes": "x"}))[1] == "unknown-key"
            (tmp_path / "state/runs/00000000.json").write_text("{")
            assert (await peer.ask("runs_damaged"))["result"] == ["00000000.json"]

    previous, limits.RUN_END_WAIT_S = limits.RUN_END_WAIT_S, 0.01
    try:
        asyncio.run(act())
    finally:
        limits.RUN_END_WAIT_S = previous

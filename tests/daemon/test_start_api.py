"""The verb that starts an agent: what it leaves to the client, and an error with what is said before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.daemon import api
from paddock.errors import UserError
from tests.support.serving import Peer, error, serving

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_is_not_plain_is_left_to_the_client_and_makes_nothing(tmp_path: Path) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            spec = {"argv": ["agent"]}
            asked = {"request": {"agent": "claude", "workspace": str(tmp_path)}, "exec": spec, "words": ["x"]}
            answer = await peer.ask("start", asked)
            assert (answer["ok"], answer["result"]) == (True, None)
            assert not runtime.boxes
            assert error(await peer.ask("start", {**asked, "turn": {}}))[1] == "unknown-key"
            assert error(await peer.ask("start", {"exec": spec}))[1] == "missing-key"

    asyncio.run(act())


def test_an_error_comes_with_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def refuse(*_: object) -> None:
        raise UserError("it is the wrong day", hint="tomorrow", code="day")

    async def act() -> None:
        async with serving(tmp_path) as runtime:
            monkeypatch.setattr(runtime, "open", refuse)
            asked = {"request": {"agent": "shell", "workspace": str(workspace)}, "exec": {"argv": ["agent"]}}
            answer = await api.call(runtime, "start", asked)
            wrong = UserError("it is the wrong day", hint="tomorrow", code="day").to_wire()
            assert answer.result == {"said": [], "error": wrong}
            assert answer.fds == ()

    asyncio.run(act())

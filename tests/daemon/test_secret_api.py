"""Verbs about secrets: what they say and what they never repeat."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.agents import Turn
from paddock.daemon import api, secret_api
from paddock.errors import UserError
from paddock.gateway.control import BoxUsage
from paddock.metering.ledger import Line, Report
from paddock.model import BoxRequest, Budget, ExecSpec, Lent, SecretUse
from tests.support.serving import running

if TYPE_CHECKING:
    from pathlib import Path

VALUE = "sk-live-000111222333"


def test_what_a_request_carries_is_not_shown_by_its_arguments() -> None:
    request = BoxRequest(workspace="/w", secrets=(SecretUse(name="openai", variable="OPENAI_API_KEY"),))
    for args in (
        secret_api.Lend(box="b", given={"openai": VALUE}),
        api.Exec(box="b", exec=ExecSpec(argv=("true",)), given={"openai": VALUE}),
        api.Session(box="b", turn=Turn(), exec=ExecSpec(argv=("true",)), given={"openai": VALUE}),
        Lent(given={"openai": VALUE}),
        api.Create(request=request, given={"openai": VALUE}),
    ):
        assert VALUE not in repr(args)


def test_a_budget_is_changed_where_something_was_said_and_what_was_spent_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()

    async def act() -> None:
        async with running(tmp_path / "home") as runtime:
            request = {"workspace": str(tmp_path / "w"), "name": "box", "budget": {"tokens": 5}}
            await api.call(runtime, "create", {"request": request})
            (box,) = runtime.boxes.values()
            await api.call(runtime, "budget", {"box": "box", "budget": {"requests": 2}})
            assert box.row.spec.budget == Budget(tokens=5, requests=2)
            assert json.loads(await runtime.credentials.document(box))["spending"]["budget"]["requests"] == 2
            assert (await api.call(runtime, "usage", {"box": ""})).items == ()
            runtime.usages.heard(box, BoxUsage(id=box.row.id, lines=(Line(provider="openai", model="m", requests=1),)))
            for name in ("", "box", box.row.id):
                found = await api.call(runtime, "usage", {"box": name})
                (report,) = found.items or ()
                assert codec.from_wire(Report, report).lines[0].requests == 1
            with pytest.raises(UserError):
                await api.call(runtime, "usage", {"box": "nobody"})
            assert (await api.call(runtime, "spent", {"box": box.row.id})).result == ""
            runtime.usages.heard(box, BoxUsage(id=box.row.id, over="the budget is spent"))
            runtime.usages.forget(box.row.id)  # as when the box is gone
            assert (await api.call(runtime, "spent", {"box": box.row.id})).result == "the budget is spent"
            for name in ("nobody", f"../usage/{box.row.id}", ""):
                assert (await api.call(runtime, "spent", {"box": name})).result == ""

    asyncio.run(act())


def test_who_starts_a_command_is_asked_for_what_the_daemon_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()

    async def act() -> None:
        async with running(tmp_path / "home") as runtime:
            request = {"workspace": str(tmp_path / "w"), "secrets": [{"name": "openai", "variable": "OPENAI_API_KEY"}]}
            await api.call(runtime, "create", {"request": request})
            (box,) = runtime.boxes.values()
            wanted = {"box": box.name, "exec": {"argv": ["true"]}, "asked": False}
            for verb in ("exec", "session"):
                asked = await api.call(runtime, verb, wanted)
                assert (asked.result, asked.fds) == ({"wants": {"openai": "OPENAI_API_KEY"}}, ())
            assert box.told() == []
            assert await secret_api.wants(runtime, box, {}, asked=True) is None
            (note,) = box.told()
            assert "no value for the secret 'openai': OPENAI_API_KEY was not set" in note
            assert await secret_api.wants(runtime, box, {"openai": VALUE}, asked=False) is None
            assert box.told() == []

    asyncio.run(act())


def test_a_box_is_made_with_a_placeholder_and_its_value_can_be_given_again(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()

    async def act() -> None:
        async with running(tmp_path / "home") as runtime:
            request = {"workspace": str(tmp_path / "w"), "secrets": [{"name": "openai", "variable": "OPENAI_API_KEY"}]}
            made = await api.call(runtime, "create", {"request": request, "given": {"openai": VALUE}})
            assert VALUE not in str(made)
            (box,) = runtime.boxes.values()
            assert runtime.credentials.environment(box)["OPENAI_API_KEY"].startswith("sk-proj-")
            await api.call(runtime, "secrets_lend", {"box": box.name, "given": {"openai": f"{VALUE}4"}})
            assert f'"value": "{VALUE}4"'.encode() in await runtime.credentials.document(box)
            changed = await api.call(runtime, "secrets_changed", {"names": ["openai"]})
            assert changed.result == {"boxes": 0}  # it does not run
            with pytest.raises(UserError):
                await api.call(runtime, "secrets_lend", {"box": "nobody", "given": {}})

    asyncio.run(act())

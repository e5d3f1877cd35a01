"""The daemon's verbs: each takes exactly its own arguments and makes one call of the runtime."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.client._async import box, command, core
from paddock.daemon import api
from paddock.daemon.answer import Nothing
from paddock.errors import UserError
from paddock.model import BoxInfo
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.mark.parametrize("verb", sorted(api.VERBS))
def test_every_verb_refuses_a_key_it_does_not_know(tmp_path: Path, verb: str) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(UserError) as caught:
                await api.call(runtime, verb, {"no_such_key": 1})
            assert caught.value.code == "unknown-key"
            assert verb in caught.value.message

    asyncio.run(act())


@pytest.mark.parametrize("verb", sorted(verb for verb, (kind, _) in api.VERBS.items() if kind is not Nothing))
def test_every_verb_with_arguments_needs_them(tmp_path: Path, verb: str) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(UserError) as caught:
                await api.call(runtime, verb, {})
            assert caught.value.code == "missing-key"

    asyncio.run(act())


@pytest.mark.parametrize(
    "verb", ["exec", "session", "connect", "channel", "inspect", "plan", "stop", "rm", "env", "jobs", "logs", "signal"]
)
def test_every_verb_on_a_box_says_when_there_is_none(tmp_path: Path, verb: str) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            fields = {field.name for field in dataclasses.fields(api.VERBS[verb][0])}
            rest = {"exec": {"argv": ["true"]}, "job": "x", "signal": 15}
            with pytest.raises(UserError) as caught:
                await api.call(runtime, verb, {"box": "nobody", **{k: v for k, v in rest.items() if k in fields}})
            assert (caught.value.code, caught.value.hint) == ("no-box", "`paddock ls` lists them")

    asyncio.run(act())


def test_the_sdk_asks_for_no_verb_that_does_not_exist() -> None:
    source = "".join(inspect.getsource(part) for part in (core, box, command))
    asked = set(_words_after(source, ('call("', 'command("')))
    assert asked - set(api.VERBS) == set()
    assert {"run", "exec", "create", "rm", "ls"} <= asked


def _words_after(source: str, marks: tuple[str, ...]) -> list[str]:
    return [part.partition('"')[0] for mark in marks for part in source.split(mark)[1:]]


def test_a_box_is_made_looked_at_changed_and_removed(tmp_path: Path, workspace: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            wire = codec.to_wire(request(workspace, name="mine", env={"A": "1"}))
            made = await api.call(runtime, "create", {"request": wire})
            info = codec.from_wire(BoxInfo, made.result)
            assert (info.name, info.env_names, info.state.value) == ("mine", ("A",), "created")
            await api.call(runtime, "env", {"box": "mine", "set": {"B": "2"}, "unset": ["A"]})
            shown = codec.from_wire(BoxInfo, (await api.call(runtime, "inspect", {"box": info.id})).result)
            assert shown.env_names == ("B",)
            assert {limit.name for limit in shown.limits} == {"memory", "cpus", "pids", "disk", "wall time"}
            listed = await api.call(runtime, "ls", {})
            assert listed.items is not None
            assert len(listed.items) == 1
            await api.call(runtime, "rm", {"box": "mine"})
            assert (await api.call(runtime, "ls", {})).items == ()

    asyncio.run(act())


def test_the_environment_of_a_box_is_never_shown(tmp_path: Path, workspace: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            await runtime.create(request(workspace, name="mine", env={"TOKEN": "s3cret"}))
            for verb in ("ls", "inspect", "plan", "jobs"):
                answer = await api.call(runtime, verb, {} if verb == "ls" else {"box": "mine"})
                assert "s3cret" not in repr(answer)

    asyncio.run(act())


def test_opening_twice_is_the_same_box(tmp_path: Path, workspace: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            wire = codec.to_wire(request(workspace))
            answers = [(await api.call(runtime, "open", {"request": wire})).result for _ in range(2)]
            assert [answer["new"] for answer in answers if isinstance(answer, dict)] == [True, False]
            assert len(runtime.boxes) == 1

    asyncio.run(act())


def test_the_plan_is_lines(tmp_path: Path, workspace: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            await runtime.create(request(workspace, name="mine"))
            lines = (await api.call(runtime, "plan", {"box": "mine"})).items
            assert lines is not None
            assert any(str(line).startswith(f"bind {workspace} from {workspace}") for line in lines)

    asyncio.run(act())


@pytest.mark.parametrize("verb", ["connect", "signal"])
def test_no_box_is_started_to_reach_a_command_that_ended_with_it(tmp_path: Path, workspace: Path, verb: str) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            box = await runtime.create(request(workspace, name="mine"))
            args = {"box": "mine", "job": "x", **({"signal": 15} if verb == "signal" else {})}
            with pytest.raises(Exception, match="not running"):
                await api.call(runtime, verb, args)
            assert box.handle is None

    asyncio.run(act())

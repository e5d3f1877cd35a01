"""What one request can start: all is there, and nothing has to be asked or refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.model import BoxRequest, ExecSpec, SecretUse, TtySize
from paddock.runtime import starts
from paddock.runtime.starts import Wanted
from paddock.secrets import sources
from paddock.secrets.binding import Words, bind
from paddock.secrets.store import opened
from paddock.secrets.value import Secret
from paddock.tools import Probe, Probes, located
from tests.support import tools
from tests.support.serving import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.paths import Paths
    from paddock.runtime import Runtime
    from paddock.runtime.starts import Plan

SPEC = ExecSpec(argv=("agent",), stdin=True)
FLAGS = ("-p", "--dangerously-skip-permissions", "--model", "--continue")


def _ready(paths: Paths, *, flags: tuple[str, ...] = FLAGS) -> None:
    """claude is installed and was asked, and there is a key."""
    tools.publish(Path(paths.state), "1.0", name="claude", package="@anthropic-ai/claude-code")
    found = located(agents.of("claude", ""), paths, "", "/nowhere")
    assert found is not None
    Probes(paths.probes).keep(found.identity, Probe(version="1.0", flags=flags))
    opened(paths.secrets, {}).put(bind("anthropic", Words()), Secret("sk-ant-" + "x" * 30))


def _within(home: Path, act: Callable[[Runtime, Wanted], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(home) as runtime:
            workspace = home / "workspace"
            workspace.mkdir()
            request = BoxRequest(agent="claude", workspace=str(workspace), caller_home="/nowhere")
            await act(runtime, Wanted(request=request, exec=SPEC, words=("do it",)))

    asyncio.run(run())


def test_a_run_that_has_all_it_needs_is_planned_and_nothing_is_made(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        assert await starts.planned(runtime, wanted) is None, "nothing is there yet"
        _ready(runtime.paths)
        plan = await starts.planned(runtime, replace(wanted, words=("--dsp", "-v", "--continue", "do it"), model="big"))
        assert plan is not None
        assert (plan.turn.prompt, plan.turn.words, plan.turn.resume) == ("do it", ("-v",), agents.LAST)
        assert (plan.turn.headless, plan.turn.model, plan.had) == (True, "big", None)
        assert plan.request.secrets == (SecretUse(name="anthropic"),)
        assert [line.startswith("secret anthropic: goes to") for line in plan.said] == [True]
        assert not runtime.boxes

    _within(tmp_path, act)


@pytest.mark.parametrize(
    "change",
    [
        {"words": ()},
        {"words": ("",)},
        {"words": (" \n",)},
        {"words": ("-",)},
        {"words": ("a\0b",)},
        {"words": ("one", "two")},
        {"words": ("--resume=x", "do it")},
        {"words": ("x" * 200_000,)},
    ],
)
def test_words_that_ask_or_are_wrong_are_for_the_client(tmp_path: Path, change: dict[str, tuple[str, ...]]) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths)
        assert await starts.planned(runtime, wanted) is not None
        assert await starts.planned(runtime, replace(wanted, words=change["words"])) is None

    _within(tmp_path, act)


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "codex"},
        {"agent": "mine"},
        {"agent": "../claude"},
        {"definition": tools.text("claude")},
        {"secrets": (SecretUse(name="github"),)},
    ],
)
def test_another_agent_or_more_than_plain_is_for_the_client(tmp_path: Path, change: dict[str, str]) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths)
        request = replace(wanted.request, **change)  # type: ignore[arg-type]
        assert await starts.planned(runtime, replace(wanted, request=request)) is None

    _within(tmp_path, act)


def test_a_program_that_lacks_a_flag_or_was_never_asked_is_for_the_client(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths, flags=("-p",))
        assert await starts.planned(runtime, wanted) is None
        Path(runtime.paths.probes).unlink()
        assert await starts.planned(runtime, wanted) is None

    _within(tmp_path, act)


def test_a_value_of_the_callers_environment_is_for_the_client(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths)
        opened(runtime.paths.secrets, {}).put(bind("anthropic", Words()), sources.from_env("MINE"))
        assert await starts.planned(runtime, wanted) is None

    _within(tmp_path, act)


def test_what_the_box_has_counts(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths)
        box = await runtime.create(wanted.request)
        plan = await starts.planned(runtime, wanted)
        assert plan is not None
        assert plan.had == ()
        shells = SecretUse(name="groq", variable="GROQ_API_KEY")
        box.row = replace(box.row, spec=replace(box.row.spec, secrets=(shells,)))
        assert await starts.planned(runtime, wanted) is None, "another shell may have another value"
        box.row = replace(box.row, spec=replace(box.row.spec, secrets=(), name="claude"))
        assert await starts.planned(runtime, wanted) is None, "the name of a box comes before that of an agent"

    _within(tmp_path, act)


def test_a_shell_needs_no_key_and_takes_no_words_of_agents(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        shell = replace(wanted, request=replace(wanted.request, agent="shell"), words=("-c", "true"))
        plan = await starts.planned(runtime, shell)
        assert plan is not None
        assert (plan.turn.words, plan.said, plan.request.secrets) == (("-c", "true"), [], ())
        for one in ({"ask": True}, {"model": "x"}, {"json": True}):
            assert await starts.planned(runtime, replace(shell, **one)) is None

    _within(tmp_path, act)


def test_at_a_terminal_a_prompt_need_not_be_given(tmp_path: Path) -> None:
    async def act(runtime: Runtime, wanted: Wanted) -> None:
        _ready(runtime.paths)
        there = replace(wanted, exec=replace(SPEC, tty=TtySize(rows=24, cols=80)), words=())
        plan: Plan | None = await starts.planned(runtime, there)
        assert plan is not None
        assert plan.turn == agents.Turn(), "as one that returns to a session"
        assert await starts.planned(runtime, replace(there, json=True)) is None

    _within(tmp_path, act)

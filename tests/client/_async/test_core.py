"""The SDK on an event loop, against a real daemon and real boxes: what many tasks at once add to the blocking one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxState, Budget, ExecSpec
from paddock.reports import RemovalInfo
from tests.support import contract
from tests.support.sdk import within

if TYPE_CHECKING:
    from paddock.client import AsyncPaddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
KEY = "live-5f0c2a7741d94e6b9f"


def test_a_run_gives_output_and_exit_code(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        done = await paddock.run(["sh", "-c", "cat; exit 3"], workspace=str(installation.workspace), stdin=b"in")
        assert (done.stdout, done.exit_code) == (b"in", 3)

    within(installation, act)


def test_a_run_and_a_box_are_lent_secrets_and_held_to_a_budget(
    own_installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    show = ["sh", "-c", "echo $OPENAI_API_KEY $GROQ_API_KEY"]

    async def act(paddock: AsyncPaddock) -> None:
        workspace, budget = str(own_installation.workspace), Budget(tokens=1000)
        done = await paddock.run(show, workspace=workspace, secrets=("openai",), budget=budget)
        assert done.stdout.startswith(b"sk-proj-")
        async with await paddock.create("sdk", workspace=workspace, secrets=("openai",), budget=budget) as box:
            assert (box.info.secrets[0].name, box.info.budget) == ("openai", budget)
            first = (await box.exec(show)).stdout.split()
            monkeypatch.setenv("GROQ_API_KEY", KEY)
            await box.lend("groq")
            second = (await box.exec(show)).stdout.split()
            assert (len(first), len(second), second[0]) == (1, 2, first[0])
            own_installation.kill_daemon()
            told = await box.start(ExecSpec(argv=("true",)))
            assert told.notes == ()  # this process has the values, and a new daemon asks for them
            assert (await told.finish()).ok
            own_installation.kill_daemon()
            monkeypatch.delenv("GROQ_API_KEY")
            lost = await box.start(ExecSpec(argv=("true",)))
            assert any("no value for the secret 'groq': GROQ_API_KEY was not set" in note for note in lost.notes)
            assert (await lost.finish()).ok
            job = await box.detach(["true"])
            assert job in [known.id for known in await box.jobs()]
        with pytest.raises(UserError) as caught:
            await paddock.run(["true"], workspace=workspace, secrets=("nobody",))
        assert caught.value.code == "unknown-secret"

    within(own_installation, act)


def test_many_runs_at_once_each_have_their_own_box(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        workspace = str(installation.workspace)
        done = await asyncio.gather(*(paddock.run(["echo", str(n)], workspace=workspace) for n in range(20)))
        assert [one.stdout for one in done] == [b"%d\n" % n for n in range(20)]

    within(installation, act)


def test_a_cancelled_run_leaves_no_box(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        task = asyncio.create_task(paddock.run(["sleep", "600"], workspace=str(installation.workspace)))
        while [info.state for info in await paddock.ls()] != [BoxState.RUNNING]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _until_none(paddock)

    within(installation, act)


async def _until_none(paddock: AsyncPaddock) -> None:
    async with asyncio.timeout(10):
        while await paddock.ls():
            await asyncio.sleep(0.01)


def test_errors_are_those_of_the_blocking_one(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        with pytest.raises(UserError) as caught:
            await paddock.get("nobody")
        assert caught.value.code == "no-box"
        with pytest.raises(UserError) as caught:
            await paddock.run(["no-such"], workspace=str(installation.workspace))
        assert caught.value.exit_code == 127
        with pytest.raises(UserError):
            await paddock.create("../bad", workspace=str(installation.workspace))
        await _until_none(paddock)

    within(installation, act)


def test_prune_reset_open_and_repr(installation: Installation) -> None:
    async def act(paddock: AsyncPaddock) -> None:
        from paddock.client.answers import box_request

        request = box_request(workspace=str(installation.workspace))
        box, new = await paddock.open(request)
        assert (new, (await paddock.open(request))[1]) == (True, False)
        assert repr(box) == "<AsyncBox shell-workspace created>"
        assert await paddock.prune() == []
        assert await paddock.reset() == [RemovalInfo(box="shell-workspace")]
        assert repr(paddock).startswith("<AsyncPaddock <AsyncTransport ")

    within(installation, act)

"""One gateway runs, whatever becomes of it: taken over, replaced, started again, and not waited for without end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.runtime import supervisor as supervising
from paddock.runtime.supervisor import Supervisor
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from paddock.gateway.client import Gateway
    from paddock.gateway.control import Hello

pytestmark = pytest.mark.box


class Place:
    """A run directory, and what each gateway was greeted with."""

    def __init__(self, root: Path) -> None:
        self.run = root / "run"
        self.run.mkdir(0o700)
        self.log = root / "gateway.log"
        self.greeted: list[int] = []

    async def greet(self, gateway: Gateway, _hello: Hello) -> None:
        self.greeted.append(gateway.pid)

    @contextlib.asynccontextmanager
    async def supervised(self) -> AsyncIterator[Supervisor]:
        made = Supervisor(str(self.run), str(self.log), self.greet)
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            made.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_next_daemon_takes_the_gateway_over(place: Place) -> None:
    async def act() -> None:
        async with place.supervised() as first:
            pid = (await first.ready()).pid
            assert (first.pid, repr(first)) == (pid, f"<Supervisor of <Gateway {pid} running>>")
        async with place.supervised() as second:
            assert (await second.ready()).pid == pid
            await second.end()
        assert place.greeted == [pid, pid]

    asyncio.run(act())


def test_a_gateway_of_another_version_is_replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        async with place.supervised() as first:
            pid = (await first.ready()).pid
        monkeypatch.setattr(supervising, "VERSION", "0.0.0-other")
        assert await Supervisor(str(place.run), str(place.log), place.greet)._adopt() is None
        monkeypatch.undo()
        async with place.supervised() as third:
            assert (await third.ready()).pid != pid
            await third.end()

    asyncio.run(act())


def test_a_killed_gateway_is_followed_by_another(place: Place) -> None:
    async def act() -> None:
        async with place.supervised() as made:
            pid = (await made.ready()).pid
            os.kill(pid, signal.SIGKILL)
            while made.pid == pid:
                await asyncio.sleep(0.005)
            assert (await made.ready()).pid != pid
            await made.end()

    asyncio.run(act())


def test_a_gateway_that_is_only_starting_is_ended_too(place: Place) -> None:
    async def act() -> None:
        made = Supervisor(str(place.run), str(place.log), place.greet)
        task = asyncio.create_task(made.run())
        while made._starting is None:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert made.pid is None
        await made.end()
        started = await made._starting
        until(lambda: not alive(started.pid), "it ended")

    asyncio.run(act())


def test_a_gateway_that_never_comes_is_an_error_that_says_where_to_look(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "GATEWAY_START_S", 0.05)

    async def act() -> None:
        with pytest.raises(Unavailable) as caught:
            await Supervisor(str(place.run), str(place.log), place.greet).ready()
        assert (caught.value.code, str(place.log) in caught.value.hint) == ("gateway", True)

    asyncio.run(act())

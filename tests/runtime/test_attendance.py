"""Who can be asked: counted, told to the gateway, and forgotten when the terminal is gone."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from paddock import frames
from paddock.gateway.control import PendingAsk
from paddock.runtime import attendance
from paddock.runtime.attendance import Attendance

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

ASK = PendingAsk(ask="1", box="id", host="a.example", port=443, protocol="tls", time="now")


class World:
    """A supervisor, a gateway and a box in one, which keep what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []
        self.asks: list[PendingAsk] = []
        self.gateway = self
        self.handle = self
        self.row = self
        self.id = "id"
        self.name = "box"

    async def set_attended(self, box: str, *, attended: bool) -> None:
        self.told.append((box, attended))

    async def pending(self) -> list[PendingAsk]:
        return list(self.asks)


def run(act: Callable[[Any, Any], Any]) -> World:
    world = World()
    made = Attendance(world)  # type: ignore[arg-type]
    asyncio.run(act(made, world))
    return world


def test_a_terminal_hears_of_each_question_once_and_of_its_end() -> None:
    async def act(made: Attendance, world: World) -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        attending = asyncio.create_task(made.attend(world, ours))  # type: ignore[arg-type]
        world.asks = [ASK, PendingAsk(ask="2", box="other", host="b", port=1, protocol="tls", time="now")]
        decoder = frames.Decoder()
        heard: list[frames.Message] = []
        while len(heard) < 2:
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 65536), 5)
            heard += [frames.decode_message(payload) for _, payload in decoder.feed(data)]
            world.asks = []
        assert [next(iter(message)) for message in heard] == ["ask", "settled"]
        assert made.someone("id")
        theirs.close()
        await asyncio.wait_for(attending, 5)
        assert not made.someone("id")
        assert repr(made) == "<Attendance at 0 boxes>"

    assert run(act).told == [("id", True), ("id", False)]


def test_who_is_expected_counts_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "_ARRIVAL_S", 0.01)

    async def act(made: Attendance, world: World) -> None:
        made.arriving(world)  # type: ignore[arg-type]
        assert made.someone("id")
        await made.await_arrival(world)  # type: ignore[arg-type]
        assert not made.someone("id")

    assert run(act).told == [("id", True), ("id", False)]


def test_two_terminals_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "_ARRIVAL_S", 0.01)

    async def act(made: Attendance, world: World) -> None:
        made.arriving(world)  # type: ignore[arg-type]
        made.arriving(world)  # type: ignore[arg-type]
        await made.await_arrival(world)  # type: ignore[arg-type]
        assert made.someone("id")
        await made.await_arrival(world)  # type: ignore[arg-type]
        assert not made.someone("id")

    run(act)

"""Listeners are accepted from while there is room, and from none when there is not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from paddock.gateway.listeners import Listeners
from paddock.gateway.poller import Poller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.gateway.caller import Caller
    from paddock.gateway.listeners import Serve


async def serve(_caller: Caller) -> None:
    raise AssertionError("nobody calls it here")


class Stage:
    def __init__(self) -> None:
        self.poller = Poller(asyncio.get_running_loop())
        self.room = 100
        self.taken: list[socket.socket] = []
        self.listeners = Listeners(self.poller, lambda: len(self.taken) < self.room, self._accepted)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listeners.add(self.listener, serve)
        self._far: list[socket.socket] = []

    def _accepted(self, sock: socket.socket, found: Serve) -> None:
        assert found is serve
        assert sock.getblocking() is False
        self.taken.append(sock)

    def call(self) -> None:
        self._far.append(socket.create_connection(self.listener.getsockname()))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.taken) != count:
                await asyncio.sleep(0.001)

    def close(self) -> None:
        for sock in (*self.taken, *self._far):
            sock.close()
        self.listeners.drop([self.listener])
        assert len(self.poller) == 0
        self.poller.close()


def play(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        with contextlib.closing(Stage()) as stage:
            await act(stage)

    asyncio.run(main())


def test_whoever_calls_is_accepted_and_sends_without_delay() -> None:
    async def act(stage: Stage) -> None:
        for _ in range(20):
            stage.call()
        await stage.until(20)
        assert stage.taken[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert repr(stage.listeners) == "<Listeners 1, 0 held>"

    play(act)


def test_without_room_a_listener_waits_and_costs_nothing() -> None:
    async def act(stage: Stage) -> None:
        stage.room = 1
        stage.call()
        stage.call()
        await stage.until(1)
        while "1 held" not in repr(stage.listeners):
            await asyncio.sleep(0.001)
        assert len(stage.poller) == 0, "it is not even looked at"
        stage.listeners.resume()
        assert "1 held" in repr(stage.listeners), "there is still none"
        stage.room = 2
        stage.listeners.resume()
        await stage.until(2)

    play(act)


def test_what_is_dropped_is_closed_and_not_resumed() -> None:
    async def act(stage: Stage) -> None:
        stage.room = 0
        stage.call()
        while "1 held" not in repr(stage.listeners):
            await asyncio.sleep(0.001)
        other = socket.create_server(("127.0.0.1", 0))
        stage.listeners.add(other, serve)
        dropped = [stage.listener]
        stage.listeners.drop(dropped)
        assert (dropped, stage.listener.fileno()) == ([], -1)
        stage.room = 1
        stage.listeners.resume()
        assert repr(stage.listeners) == "<Listeners 1, 0 held>"
        stage.listener = other

    play(act)

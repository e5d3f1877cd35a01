"""Handlers are called for what is ready, and a handler that fails costs nobody else anything."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.poller import READ, WRITE, Poller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def settle(waiting: asyncio.Future[int]) -> Callable[[int], None]:
    def handler(events: int) -> None:
        if not waiting.done():
            waiting.set_result(events)

    return handler


def run(act: Callable[[Poller], Awaitable[None]]) -> None:
    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(act(poller), 10)
        finally:
            poller.close()

    asyncio.run(main())


def test_a_handler_is_called_while_its_descriptor_is_ready() -> None:
    async def act(poller: Poller) -> None:
        a, b = socket.socketpair()
        heard: asyncio.Future[int] = poller.loop.create_future()
        with a, b:
            poller.watch(a.fileno(), READ, settle(heard))
            await asyncio.sleep(0.01)
            assert not heard.done()
            b.send(b"x")
            assert await heard & READ
            poller.forget(a.fileno())
            assert len(poller) == 0

    run(act)


def test_waiting_once_leaves_nothing_behind() -> None:
    async def act(poller: Poller) -> None:
        a, b = socket.socketpair()
        with a, b:
            await poller.ready(a.fileno(), WRITE)
            assert len(poller) == 0
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await poller.ready(a.fileno(), READ)
            assert len(poller) == 0

    run(act)


def test_what_is_not_watched_can_be_forgotten() -> None:
    async def act(poller: Poller) -> None:
        poller.forget(12345)
        assert repr(poller) == "<Poller 0 descriptors>"

    run(act)


def test_a_handler_that_fails_is_forgotten_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def act(poller: Poller) -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        heard: asyncio.Future[int] = poller.loop.create_future()

        def broken(_events: int) -> None:
            raise ZeroDivisionError

        poller.watch(pairs[0][0].fileno(), READ, broken)
        poller.watch(pairs[1][0].fileno(), READ, settle(heard))
        for _, peer in pairs:
            peer.send(b"x")
        await heard
        await asyncio.sleep(0)
        assert len(poller) == 1
        poller.forget(pairs[1][0].fileno())
        for pair in pairs:
            for sock in pair:
                sock.close()

    with caplog.at_level(logging.ERROR):
        run(act)
    assert "ZeroDivisionError" in caplog.text


def test_shares_take_turns_however_much_one_of_them_has_to_do() -> None:
    async def act(poller: Poller) -> None:
        busy, idle = poller.share(), poller.share()
        order: list[str] = []
        pairs = [socket.socketpair() for _ in range(20)]

        def work(_events: int) -> None:
            order.append("busy")
            time.sleep(0.003)

        for near, far in pairs[:-1]:
            busy.watch(near.fileno(), READ, work)
            far.send(b"x")
        near, far = pairs[-1]
        heard: asyncio.Future[int] = poller.loop.create_future()
        idle.watch(near.fileno(), READ, settle(heard))
        far.send(b"x")
        await heard
        assert 0 < len(order) <= 6  # in one turn or two, and not all nineteen
        assert repr(busy).startswith("<Share ")
        assert busy.now == poller.now
        while len(order) < 38:  # and nothing that was left out is forgotten
            await asyncio.sleep(0)
        for near, far in pairs:
            poller.forget(near.fileno())
            near.close()
            far.close()

    run(act)

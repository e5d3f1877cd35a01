"""Starting a gateway, finding one that runs, and hearing that it died."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from typing import TYPE_CHECKING

import pytest

from paddock import fs, proc
from paddock.errors import Unavailable
from paddock.gateway import client, control
from tests.support.installation import until
from tests.support.scene import policy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

pytestmark = pytest.mark.box


@pytest.fixture
def place() -> Iterator[str]:
    # Not tmp_path: a socket's name has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gw-") as directory:
        yield directory


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(act(), 30)

    asyncio.run(main())


def test_a_started_gateway_answers_and_ends_when_told(place: str) -> None:
    async def act() -> None:
        gateway = await client.start(place, "gateway", f"{place}/log")
        pid = gateway.pid
        assert proc.identity(pid) is not None
        assert repr(gateway) == f"<Gateway {pid} running>"
        await gateway.hello()
        await gateway.end()
        assert gateway.ended
        until(lambda: proc.identity(pid) is None, "it is gone")
        with open(f"{place}/log") as log:
            assert log.read() == ""

    run(act)


def test_only_one_gateway_serves_a_place_and_the_next_takes_a_dead_ones(place: str) -> None:
    async def act() -> None:
        first = await client.start(place, "gateway", f"{place}/log")
        with pytest.raises(Unavailable) as busy:
            await client.start(place, "gateway", f"{place}/log")
        assert busy.value.code == "in-use"
        os.kill(first.pid, signal.SIGKILL)
        await first.wait_ended()
        until(lambda: proc.identity(first.pid) is None, "its other sockets are closed too")
        with pytest.raises(ConnectionRefusedError):
            await client.Gateway.connect(place, "gateway")
        second = await client.start(place, "gateway", f"{place}/log")
        assert second.pid != first.pid
        await second.end()

    run(act)


def test_whoever_waits_hears_that_the_gateway_died(place: str) -> None:
    async def act() -> None:
        gateway = await client.start(place, "gateway", f"{place}/log")
        os.kill(gateway.pid, signal.SIGSTOP)
        waiting = asyncio.create_task(gateway.hello())
        await asyncio.sleep(0.01)
        os.kill(gateway.pid, signal.SIGKILL)
        with pytest.raises(Unavailable) as died:
            await waiting
        assert died.value.code == client.DIED
        with pytest.raises(Unavailable):
            await gateway.hello()
        assert repr(gateway).endswith("ended>")

    run(act)


def test_without_a_gateway_there_is_none_to_connect_to(place: str) -> None:
    async def act() -> None:
        with pytest.raises(FileNotFoundError):
            await client.Gateway.connect(place, "gateway")

    run(act)


def test_a_gateway_that_does_not_answer_is_not_waited_for_forever(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "GATEWAY_REPLY_S", 0.1)

    async def act() -> None:
        with fs.bind_unix(place, "gateway", kind=socket.SOCK_SEQPACKET) as listener:
            listener.listen()
            gateway = await client.Gateway.connect(place, "gateway")
            with pytest.raises(Unavailable) as stuck:
                await gateway.hello()
            assert stuck.value.code == "gateway"
            gateway.close()

    run(act)


def test_answers_reach_whoever_asked_in_any_order(place: str) -> None:
    async def act() -> None:
        with fs.bind_unix(place, "gateway", kind=socket.SOCK_SEQPACKET) as listener:
            listener.listen()
            gateway = await client.Gateway.connect(place, "gateway")
            peer, _ = listener.accept()
            with peer:
                asking = [asyncio.create_task(gateway.set_policy(box, policy())) for box in ("a", "b")]
                await asyncio.sleep(0.01)
                requests = [control.receive(peer), control.receive(peer)]
                for request in reversed(requests):
                    assert request is not None
                    control.close_all(request.fds)
                    body = {"n": request.body["n"], "ok": True, "closed": 1 if request.body["id"] == "a" else 2}
                    control.send(peer, body)
                assert await asyncio.gather(*asking) == [1, 2]
            gateway.close()

    run(act)

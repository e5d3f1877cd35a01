"""A leg never waits, keeps what was not taken, and reads less at once of what is slow to understand."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.certificates import Leaves, make_authority
from paddock.gateway.leg import Leg
from paddock.gateway.poller import Poller
from paddock.gateway.tls import Tls
from paddock.limits import FLOW_GATED_LEAST_BYTES, INSPECTED_READ_BYTES
from paddock.policy import Host
from tests.gateway.test_flow import pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


class Stage:
    """A leg, and a client of Python's own at its other end."""

    def __init__(self, directory: Path) -> None:
        authority = make_authority("test")
        self.poller = Poller(asyncio.get_running_loop())
        near, far = pair()
        far.setblocking(True)
        far.settimeout(20)
        self.ready = asyncio.Event()
        tls = Tls(Leaves(authority, str(directory)).context(Host("a.test")))
        self.leg = Leg(self.poller, near, tls, lambda _events: self.ready.set())
        self._context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        self._context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        self._far = far

    async def wait(self, *, reading: bool = True) -> None:
        self.leg.want(reading=reading)
        await asyncio.wait_for(self.ready.wait(), 20)
        self.ready.clear()

    async def shake(self) -> ssl.SSLSocket:
        made: list[ssl.SSLSocket] = []
        thread = threading.Thread(
            target=lambda: made.append(self._context.wrap_socket(self._far, server_hostname="a.test"))
        )
        thread.start()
        while not self.leg.tls.shaken:
            await self.wait()
            assert self.leg.read() == b""
        await asyncio.to_thread(thread.join)
        return made[0]

    def close(self) -> None:
        self.leg.close()
        self._far.close()
        self.poller.close()


def on_stage(directory: Path, act: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage(directory)
        try:
            await act(stage)
        finally:
            stage.close()

    asyncio.run(main())


def test_what_is_said_is_heard_and_the_end_too(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        far = await stage.shake()
        far.sendall(b"hello")
        await stage.wait()
        assert stage.leg.read() == b"hello"
        assert stage.leg.read() == b"", "nothing more is there, and it does not wait"
        stage.leg.send(b"hello yourself")
        assert far.recv(100) == b"hello yourself"
        assert stage.leg.sent > 14
        stage.leg.say_goodbye(properly=True)
        assert far.recv(100) == b""
        far.shutdown(socket.SHUT_WR)
        far.close()
        await stage.wait()
        stage.leg.read()
        assert stage.leg.ended
        assert "bytes wait>" in repr(stage.leg)

    on_stage(tmp_path, act)


def test_a_cut_connection_is_seen_as_cut_at_the_other_end(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        with await stage.shake() as far:
            stage.leg.say_goodbye(properly=False)
            with pytest.raises(ssl.SSLError, match=r"(?i)eof"):
                far.recv(100)

    on_stage(tmp_path, act)


def test_what_is_not_taken_waits_and_is_sent_when_there_is_room(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        far = await stage.shake()
        stage.leg.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        data = bytes(8 << 20)
        stage.leg.send(data)
        assert stage.leg.blocked
        got = bytearray()

        def hear() -> None:
            while len(got) < len(data):
                got.extend(far.recv(1 << 20))

        hearing = asyncio.create_task(asyncio.to_thread(hear))
        while stage.leg.blocked:
            await stage.wait(reading=False)
            stage.leg.flush()
        await hearing
        assert got == data
        far.close()

    on_stage(tmp_path, act)


def test_reads_become_larger_while_they_are_dealt_with_quickly(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        for _ in range(20):
            stage.leg.took(time.monotonic())
        assert stage.leg.read_bytes == INSPECTED_READ_BYTES
        for _ in range(20):
            stage.leg.took(time.monotonic() - 1)
        assert stage.leg.read_bytes == FLOW_GATED_LEAST_BYTES

    on_stage(tmp_path, act)


def unacknowledged(sock: socket.socket) -> int:
    """Segments that the other end's kernel has not yet said it got (`struct tcp_info`)."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    return int.from_bytes(info[24:28], sys.byteorder)


def test_a_client_that_waits_for_an_acknowledgement_gets_it(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        with await stage.shake() as client:
            for _ in range(50):  # until it is a dialogue for the kernel: then acknowledgements go with the answers
                client.sendall(b"question")
                await stage.wait()
                assert stage.leg.read() == b"question"
                if unacknowledged(client):
                    break
                stage.leg.send(b"answer")
                assert client.recv(10) == b"answer"
            else:
                pytest.fail("the kernel acknowledged everything at once")
            stage.leg.acknowledge()
            assert unacknowledged(client) == 0

    on_stage(tmp_path, act)

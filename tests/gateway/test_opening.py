"""What the first bytes tell, however they are cut, and how a last word is delivered."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.hello import Hello, NotTls
from paddock.gateway.opening import Kind, Opening, kind_of
from paddock.gateway.poller import Poller
from tests.gateway.test_flow import pair
from tests.support.scene import client_hello

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def play(act: Callable[[Opening, socket.socket], Awaitable[None]]) -> None:
    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        near, far = pair()
        far.setblocking(True)
        far.settimeout(5)
        with near, far:
            await asyncio.wait_for(act(Opening(poller, near), far), 10)
        assert len(poller) == 0
        poller.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (b"", None),
        (b"\x16", Kind.TLS),
        (b"\x16\x03\x01", Kind.TLS),
        (b"G", None),
        (b"GET", None),
        (b"GET /", Kind.HTTP),
        (b"PROPFIND /", Kind.HTTP),
        (b"CONNECT a:1", Kind.HTTP),
        (b"HELO me", Kind.OTHER),
        (b"HE", None),
        (b"get /", Kind.OTHER),
        (b"SSH-2.0", Kind.OTHER),
        (b"\x00\x01", Kind.OTHER),
        (b"GETTER /", Kind.OTHER),
    ],
)
def test_the_first_bytes_tell_the_protocol(first: bytes, kind: Kind | None) -> None:
    assert kind_of(first) is kind


def test_it_waits_until_the_protocol_is_known_and_keeps_every_byte() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        waiting = asyncio.create_task(opening.kind(5))
        for byte in b"GET / HTTP/1.1":
            far.send(bytes([byte]))
            await asyncio.sleep(0.001)
        assert await waiting is Kind.HTTP
        while len(opening.first) < 14:
            await opening.read(5)
        assert opening.first == b"GET / HTTP/1.1"

    play(act)


@pytest.mark.parametrize("sent", [b"", b"GE"])
def test_what_does_not_come_in_time_is_nothing_known(sent: bytes) -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        far.sendall(sent)
        far.shutdown(socket.SHUT_WR)
        assert await opening.kind(0.05) is Kind.OTHER

    play(act)


def test_a_hello_is_found_however_it_is_cut() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        whole = client_hello("name.test")
        waiting = asyncio.create_task(opening.hello(5))
        for start in range(0, len(whole), 50):
            far.sendall(whole[start : start + 50])
            await asyncio.sleep(0.001)
        found = await waiting
        assert isinstance(found, Hello)
        assert found.sni == "name.test"
        assert opening.first == whole

    play(act)


def test_a_hello_that_ends_early_is_none() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        far.sendall(client_hello("name.test")[:40])
        far.shutdown(socket.SHUT_WR)
        assert isinstance(await opening.hello(5), NotTls)

    play(act)


def test_the_last_words_are_read_even_by_who_is_still_sending() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        far.sendall(bytes(100_000))
        finishing = asyncio.create_task(opening.finish(b"no", 2))
        far.setblocking(False)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(far, 10) == b"no"
        assert await loop.sock_recv(far, 10) == b""
        far.close()
        await finishing
        assert opening.sock.fileno() == -1

    play(act)


def test_who_never_ends_is_not_waited_for() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        started = asyncio.get_running_loop().time()
        await opening.finish(b"no", 0.05)
        assert asyncio.get_running_loop().time() - started < 2
        assert opening.sock.fileno() == -1
        assert far.recv(10) == b"no"

    play(act)


def test_it_says_what_it_is() -> None:
    async def act(opening: Opening, far: socket.socket) -> None:
        assert repr(opening) == f"<Opening fd {opening.sock.fileno()}, 0 bytes>"

    play(act)

"""What comes through a door is what was promised, or the door is shut; nothing that came is left open."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from paddock.engines.guest import door as guest
from paddock.errors import Unavailable
from paddock.gateway.door import Door, Sockets
from paddock.gateway.poller import Poller
from paddock.limits import SEAL_DNS_PORT, SEAL_TCP_PORT
from tests.support import namespaces
from tests.support.scene import NET, loopback_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Stage:
    """A door whose other end is ours."""

    def __init__(self) -> None:
        self.poller = Poller(asyncio.get_running_loop())
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.box = ours
        self.announced: list[Sockets] = []
        self.lost: list[str] = []
        self.door = Door(self.poller, theirs.detach(), self.announced.append, self.lost.append)

    def send(self, data: bytes, sockets: list[Any] | None = None) -> None:
        fds = [sock if isinstance(sock, int) else sock.fileno() for sock in sockets or []]
        socket.send_fds(self.box, [data], fds)

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0.002)

    def close(self) -> None:
        self.door.close()
        for sockets in self.announced:
            sockets.close()
        assert len(self.poller) == 0
        self.poller.close()
        self.box.close()


def play(act: Callable[[Stage], Awaitable[None]]) -> None:
    """In a network of its own: the promised ports are fixed ones."""

    async def main() -> None:
        stage = Stage()
        try:
            await asyncio.wait_for(act(stage), 20)
        finally:
            stage.close()

    def inside() -> None:
        loopback_up()
        asyncio.run(main())

    namespaces.inside(inside, NET)


def tcp(port: int = SEAL_TCP_PORT, address: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)


def udp(port: int = SEAL_DNS_PORT, address: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))
    return sock


def test_the_sockets_of_a_sealed_box_are_taken() -> None:
    async def act(stage: Stage) -> None:
        stage.send(b'{"sealed":true}', [tcp(), udp(), tcp(5432), tcp(5432, "::1")])
        await stage.settle()
        (sockets,) = stage.announced
        assert sockets.tcp.getsockname() == ("127.0.0.1", SEAL_TCP_PORT)
        assert [sock.getsockname()[1] for sock in sockets.listeners] == [5432, 5432]
        assert stage.door.is_open

    play(act)


def test_a_second_announcement_replaces_the_first() -> None:
    async def act(stage: Stage) -> None:
        first, second = tcp(), udp()
        for _ in range(2):
            stage.send(b'{"sealed":true}', [first, second])
        await stage.settle()
        assert len(stage.announced) == 2

    play(act)


STRANGE: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "one": lambda: [tcp()],
    "in the wrong order": lambda: [udp(), tcp()],
    "two listeners": lambda: [tcp(), tcp(1234)],
    "a listener on another port": lambda: [tcp(61002), udp()],
    "a listener for everyone": lambda: [tcp(address="0.0.0.0"), udp()],
    "not listening": lambda: [_bound(), udp()],
    "connected": lambda: [_connected(SEAL_TCP_PORT), udp()],
    "a unix socket": lambda: [socket.socketpair()[0], udp()],
    "names on another port": lambda: [tcp(), udp(5353)],
    "a file": lambda: [os.open("/dev/null", os.O_RDONLY), udp()],
    "a directory": lambda: [tcp(), udp(), os.open("/", os.O_RDONLY)],
    "a pipe": lambda: [tcp(), udp(), os.pipe()[0]],
    "another door": lambda: [tcp(), udp(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0]],
    "datagrams among the listeners": lambda: [tcp(), udp(), udp(1234)],
}


def _bound() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", SEAL_TCP_PORT))
    return sock


def _connected(source: int = 0) -> socket.socket:
    with tcp(0) as listener:
        return socket.create_connection(listener.getsockname(), source_address=("127.0.0.1", source))


@pytest.mark.parametrize("what", STRANGE)
def test_strange_descriptors_shut_the_door_and_none_stays_open(what: str) -> None:
    async def act(stage: Stage) -> None:
        made = STRANGE[what]()
        before = len(os.listdir("/proc/self/fd"))
        stage.send(b'{"sealed":true}', made)
        await stage.settle()
        assert (len(stage.announced), len(stage.lost)) == (0, 1)
        assert not stage.door.is_open
        assert len(os.listdir("/proc/self/fd")) == before - 1, "the door alone is gone"

    play(act)


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b"{}", b'{"sealed":1}', b'{"sealed":false}', b'{"ok":true}', b"{" * 4000]
)
def test_a_message_nobody_asked_for_shuts_the_door(data: bytes) -> None:
    async def act(stage: Stage) -> None:
        before = len(os.listdir("/proc/self/fd"))
        stage.send(data, [0, 1])
        await stage.settle()
        assert stage.lost
        assert not stage.announced
        assert len(os.listdir("/proc/self/fd")) == before - 1

    play(act)


def test_a_flood_of_messages_is_no_flood_of_anything_else() -> None:
    async def act(stage: Stage) -> None:
        stage.box.setblocking(False)
        sent = 0
        try:
            while sent < 10_000:
                stage.send(b'{"ok":true}')
                sent += 1
        except (BlockingIOError, BrokenPipeError):
            pass
        await stage.settle()
        assert len(stage.lost) == 1

    play(act)


def test_what_init_serves_can_be_dialled_listened_and_unlistened() -> None:
    async def act(stage: Stage) -> None:
        loop = guest_loop(stage)
        with tcp(8000) as listener:
            sock = await stage.door.dial(8000)
            peer, _ = listener.accept()
            with sock, peer:
                assert sock.getpeername()[1] == 8000
        with pytest.raises(Unavailable) as refused:
            await stage.door.dial(8001)
        assert refused.value.code == "refused"
        listeners = await stage.door.listen(5432)
        assert {sock.getsockname()[1] for sock in listeners} == {5432}
        for sock in listeners:
            sock.close()
        await stage.door.unlisten(5432)
        assert stage.door.is_open
        loop.cancel()

    play(act)


def guest_loop(stage: Stage) -> asyncio.Task[None]:
    """Init's side, in turns with ours."""
    from paddock.engines.guest.wire import Loop

    loop = Loop()
    guest.Door(loop, guest.Seal(tcp(), udp(), stage.box), stage.box)

    async def turns() -> None:
        while True:
            loop.at(0, lambda: None)  # so that a turn never waits
            loop.run_once()
            await asyncio.sleep(0.001)

    return asyncio.create_task(turns())


@pytest.mark.parametrize(
    ("reply", "made"),
    [
        (b'{"ok":true}', list),
        (b'{"ok":true}', lambda: [tcp(9000)]),
        (b'{"ok":true}', lambda: [udp()]),
        (b'{"ok":true}', lambda: [socket.socketpair()[0]]),
        (b'{"ok":true}', lambda: [_connected(), _connected()]),
    ],
)
def test_a_dial_answered_with_something_else_shuts_the_door(reply: bytes, made: Callable[[], list[Any]]) -> None:
    async def act(stage: Stage) -> None:
        dialling = asyncio.create_task(stage.door.dial(80))
        await stage.settle()
        stage.send(reply, made())
        with pytest.raises(Unavailable):
            await dialling
        assert not stage.door.is_open

    play(act)


def test_who_waits_hears_when_the_door_is_shut() -> None:
    async def act(stage: Stage) -> None:
        dialling = asyncio.create_task(stage.door.dial(80))
        await stage.settle()
        stage.box.close()
        with pytest.raises(Unavailable):
            await dialling
        with pytest.raises(Unavailable):
            await stage.door.dial(80)
        assert stage.lost == ["it was shut"]

    play(act)


def test_an_answer_to_who_has_left_is_closed_and_the_next_gets_its_own() -> None:
    async def act(stage: Stage) -> None:
        first = asyncio.create_task(stage.door.dial(80))
        await stage.settle()
        first.cancel()
        second = asyncio.create_task(stage.door.dial(81))
        await stage.settle()
        stage.send(b'{"ok":true}', [_connected()])
        stage.send(b'{"error":"ECONNREFUSED"}')
        with pytest.raises(Unavailable) as refused:
            await second
        assert refused.value.code == "refused"
        assert stage.door.is_open

    play(act)

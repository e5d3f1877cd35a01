"""A caller is told no in its own protocol: real clients, real sockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.gateway.caller import Caller, ConnectCaller, SocksCaller
from paddock.gateway.certificates import Leaves, make_authority
from paddock.gateway.poller import Poller
from tests.gateway.test_flow import pair
from tests.support.scene import client_hello, talk

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.policy import Host


def none(_host: Host) -> ssl.SSLContext:
    raise Unavailable("no certificate", code="certificate")


def told(
    act: Callable[[Caller], Awaitable[None]],
    client: Callable[[socket.socket], str],
    kind: type[Caller] = Caller,
    contexts: Callable[[Host], ssl.SSLContext] = none,
) -> str:
    """What the client hears while `act` is done to its caller."""
    heard: list[str] = []

    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        near, far = pair()
        far.settimeout(10)

        def listen() -> None:
            with far:
                heard.append(client(far))

        thread = threading.Thread(target=listen)
        thread.start()
        await asyncio.wait_for(act(kind(poller, near, contexts)), 20)
        await asyncio.to_thread(thread.join)
        near.close()
        assert len(poller) == 0
        poller.close()

    asyncio.run(main())
    return heard[0]


async def refuse(caller: Caller) -> None:
    await caller.refuse(80, "because\n")


async def fail(caller: Caller) -> None:
    await caller.fail(80, Unavailable("it does not answer", code="timeout"))


def test_http_hears_403_and_why() -> None:
    said = told(refuse, lambda sock: talk(sock, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert said.startswith("HTTP/1.1 403 Forbidden\r\n")
    assert said.endswith("because\n")


def test_a_host_that_does_not_answer_is_a_504() -> None:
    said = told(fail, lambda sock: talk(sock, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert said.startswith("HTTP/1.1 504 ")
    assert "it does not answer" in said


def test_tls_hears_the_same_by_a_certificate_of_the_boxs_own(tmp_path: Path) -> None:
    authority = make_authority("box")
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())

    def client(sock: socket.socket) -> str:
        with trust.wrap_socket(sock, server_hostname="name.test") as inner:
            return talk(inner, b"GET / HTTP/1.1\r\nHost: name.test\r\n\r\n")

    said = told(refuse, client, contexts=Leaves(authority, str(tmp_path)).context)
    assert said.startswith("HTTP/1.1 403 Forbidden\r\n")
    assert said.endswith("because\n")


@pytest.mark.parametrize("name", ["name.test", None])
def test_tls_that_cannot_be_answered_hears_an_alert(name: str | None) -> None:
    said = told(refuse, lambda sock: talk(sock, client_hello(name)))
    assert said.encode("latin-1") == b"\x15\x03\x01\x00\x02\x02\x31"


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n", b"\x00\x00\x00\x08", b"HELO x\r\n"])
def test_whoever_speaks_something_else_is_reset(data: bytes) -> None:
    assert told(refuse, lambda sock: talk(sock, data)) == "<reset>"


def test_whoever_waits_for_the_server_is_reset_soon() -> None:
    async def act(caller: Caller) -> None:
        await caller.refuse(22, "because\n")

    assert told(act, talk) == "<reset>"


@pytest.mark.parametrize(
    ("kind", "yes", "no", "failed"),
    [
        (ConnectCaller, "HTTP/1.1 200 ", "HTTP/1.1 403 ", "HTTP/1.1 504 "),
        (SocksCaller, "\x05\x00\x00", "\x05\x02\x00", "\x05\x04\x00"),
    ],
)
def test_whoever_asked_a_proxy_hears_it_from_the_proxy(kind: type[Caller], yes: str, no: str, failed: str) -> None:
    async def admit(caller: Caller) -> None:
        await caller.admit()
        assert type(caller.admitted()) is Caller
        caller.sock.close()

    assert kind.waits
    assert not Caller.waits
    assert told(admit, talk, kind).startswith(yes)
    assert told(refuse, talk, kind).startswith(no)
    assert told(fail, talk, kind).startswith(failed)

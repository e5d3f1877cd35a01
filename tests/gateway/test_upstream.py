from __future__ import annotations

import asyncio
import base64
import socket
import struct
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Self

import pytest

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.gateway.dial import Checked, check, check_name
from paddock.gateway.http1 import Head, RequestParser
from paddock.gateway.resolver import HostView, Resolver
from paddock.gateway.socks import Request, SocksServer
from paddock.gateway.upstream import Proxy, Upstream, parse_proxy
from paddock.policy import Action, Default, Evaluator, Host, Layer, OnDeny, Policy, Rule, Source, SourceKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PUBLIC = (IPv4Address("8.8.8.8"),)


def allowing(*patterns: str) -> Evaluator:
    rules = tuple(Rule(Action.ALLOW, pattern, Source(SourceKind.FLAG)) for pattern in patterns)
    return Evaluator(Policy((Layer("user", Default.DENY, rules),), OnDeny.DENY))


def destination(text: str = "www.test", port: int = 443, *addresses: str) -> Checked:
    host = Host.parse(text)
    evaluator = allowing("*", "10.0.0.0/8")
    found = check(evaluator, host, port, map(ip_address, addresses)) if addresses else check_name(evaluator, host, port)
    assert isinstance(found, Checked)
    return found


# -- what the user wrote -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "user", "password"),
    [
        ("http://proxy.test:3128", "http", "proxy.test", 3128, b"", b""),
        ("HTTP://Proxy.test/", "http", "proxy.test", 80, b"", b""),
        ("http://me:p%40ss%3A@10.0.0.1:8080", "http", "10.0.0.1", 8080, b"me", b"p@ss:"),
        ("http://me@proxy.test", "http", "proxy.test", 80, b"me", b""),
        ("socks5h://[::1]:1081", "socks5h", "::1", 1081, b"", b""),
        ("socks5://localhost", "socks5h", "localhost", 1080, b"", b""),
    ],
)
def test_a_proxy_is_read(url: str, scheme: str, host: str, port: int, user: bytes, password: bytes) -> None:
    proxy = parse_proxy(url)
    assert (proxy.scheme, proxy.host.text, proxy.port) == (scheme, host, port)
    assert (proxy.user, proxy.password) == (user, password)


@pytest.mark.parametrize(
    "url",
    [
        "proxy.test:3128",
        "https://proxy.test",
        "ftp://proxy.test",
        "socks4://proxy.test",
        "http://",
        "http://proxy.test/path",
        "http://proxy.test:0",
        "http://127.1",
        "http://a@b@proxy.test",
        "http://me:sesame@proxy test",
        "http://%00:sesame@proxy.test",
        "http://a%3ab:sesame@proxy.test",
        "http://me:" + "x" * 256 + "@proxy.test",
        "http://proxy.test\r\nX: y",
    ],
)
def test_another_proxy_is_refused_without_telling_the_password(url: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_proxy(url)
    assert caught.value.code == "bad-proxy"
    assert "sesame" not in str(caught.value)


def test_a_proxy_shows_no_credentials() -> None:
    upstream = Upstream(Resolver(HostView()), "http://me:sesame@proxy.test")
    assert "proxy.test" in repr(upstream)
    assert "sesame" not in repr(upstream)
    assert repr(Upstream(Resolver(HostView()))) == "<Upstream none>"


# -- when it is asked --------------------------------------------------------------------------------------------------
def serves(host: str, port: int = 443, addresses: tuple[str, ...] = ("8.8.8.8",), no_proxy: str = "") -> bool:
    upstream = Upstream(Resolver(HostView()), "http://proxy.test", no_proxy)
    return upstream.serves(Host.parse(host), port, tuple(map(ip_address, addresses)))


@pytest.mark.parametrize(
    ("host", "addresses", "through"),
    [  # NET-21
        ("www.test", ("8.8.8.8",), True),
        ("www.test", (), True),  # only the proxy can resolve it
        ("8.8.8.8", (), True),
        ("2606:4700::1111", (), True),
        ("www.test", ("10.0.0.1",), False),
        ("www.test", ("8.8.8.8", "10.0.0.1"), False),
        ("www.test", ("64:ff9b::a00:1",), False),
        ("10.0.0.1", (), False),
        ("127.0.0.1", (), False),
        ("::1", (), False),
        ("169.254.169.254", (), False),
        ("localhost", (), False),
        ("intranet", (), False),
    ],
)
def test_private_destinations_never_go_upstream(host: str, addresses: tuple[str, ...], through: bool) -> None:
    assert serves(host, addresses=addresses) is through


@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "through"),
    [
        ("", "www.test", 443, True),
        ("*", "www.test", 443, False),
        ("www.test", "www.test", 443, False),
        ("WWW.Test.", "www.test", 443, False),
        ("test", "www.test", 443, False),
        (".test", "www.test", 443, False),
        ("*.test", "www.test", 443, False),
        ("other.test, test ,", "www.test", 443, False),
        ("ww.test", "www.test", 443, True),
        ("www.test:443", "www.test", 443, False),
        ("www.test:80", "www.test", 443, True),
        ("8.8.8.8", "www.test", 443, False),
        ("8.8.0.0/16", "www.test", 443, False),
        ("8.9.0.0/16", "www.test", 443, True),
        ("2606::/16", "www.test", 443, True),
        ("8.8.8.8", "8.8.8.8", 443, False),
        ("[2606:4700::1111]:443", "2606:4700::1111", 443, False),
        (",,:,.,[", "www.test", 443, True),
    ],
)
def test_the_users_exceptions_hold(no_proxy: str, host: str, port: int, through: bool) -> None:
    addresses = () if ":" in host else ("8.8.8.8",)
    assert serves(host, port, addresses, no_proxy) is through


def test_without_a_proxy_nothing_goes_upstream() -> None:
    upstream = Upstream(Resolver(HostView()))
    assert not upstream
    assert not upstream.serves(Host.parse("www.test"), 443, PUBLIC)
    with pytest.raises(Unavailable):
        asyncio.run(upstream.connect(destination()))


# -- how it is asked ---------------------------------------------------------------------------------------------------
class Listener:
    """A proxy for one test."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._serve = serve

    async def __aenter__(self) -> Self:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()


def through(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    url: str = "http://proxy.test:{port}",
    to: Checked | None = None,
    send: bytes = b"ping",
) -> bytes:
    """What comes back when `send` goes to the destination by this proxy."""

    async def run() -> bytes:
        async with Listener(serve) as proxy:
            resolver = Resolver(HostView(hosts={"proxy.test": ("127.0.0.1",)}))
            upstream = Upstream(resolver, url.format(port=proxy.port))
            loop = asyncio.get_running_loop()
            with await upstream.connect(to or destination()) as sock:
                await loop.sock_sendall(sock, send)
                got = b""
                while piece := await loop.sock_recv(sock, 100):
                    got += piece
                return got

    return asyncio.run(run())


def test_connect_names_the_destination_and_takes_nothing_of_its_answer() -> None:
    heads: list[Head] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = RequestParser()
        while not heads:
            heads.extend(event for event in parser.feed(await reader.read(100)) if isinstance(event, Head))
        # The destination speaks first, in the same packet as the proxy.
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Connection established\r\nX: y\r\n\r\nSSH-2.0-x\r\n")
        writer.write(b"pong" if await reader.readexactly(4) == b"ping" else b"?")

    assert through(serve, "http://me:s%C3%A4same@proxy.test:{port}") == b"SSH-2.0-x\r\npong"
    assert (heads[0].target, heads[0].host.text, heads[0].port) == ("www.test:443", "www.test", 443)
    credentials = heads[0].fields["proxy-authorization"].removeprefix("Basic ")
    assert base64.b64decode(credentials).decode() == "me:säsame"


def test_an_address_is_named_in_brackets() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.0 200\r\n\r\n")
        await reader.readexactly(4)

    through(serve, to=destination("2606:4700::1111", 443, "2606:4700::1111"))
    assert seen[0] == b"CONNECT [2606:4700::1111]:443 HTTP/1.1\r\nHost: [2606:4700::1111]:443\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused www.test:443 with status 403"),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "other credentials"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "status 101"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", "status 301"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "does not come to an end"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * limits.HTTP_HEAD_BYTES, "does not come to an end"),
        (b"HTTP/1.1 200 OK\nX: y\r\n\r\n", "malformed"),
        (b"SSH-2.0-x\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200", "hung up"),
        (b"", "hung up"),
    ],
)
def test_a_proxy_that_does_not_connect_is_unavailable(answer: bytes, said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    with pytest.raises(Unavailable, match=said) as caught:
        through(serve)
    assert caught.value.code == "proxy"


def test_a_silent_proxy_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_TIMEOUT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    with pytest.raises(Unavailable) as caught:
        through(serve)
    assert caught.value.code == "timeout"


def test_a_proxy_that_breaks_off_is_unavailable() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with pytest.raises(Unavailable, match="the user's proxy failed: Connection reset") as caught:
        through(serve)
    assert caught.value.code == "proxy"


def test_nothing_private_is_sent_upstream_even_when_allowed() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pytest.fail("the proxy was asked")

    with pytest.raises(Unavailable, match="does not go through"):
        through(serve, to=destination("db.test", 443, "10.0.0.5"))


# -- SOCKS -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("to", "host"),
    [
        (("www.test", 443), "www.test"),
        (("8.8.8.8", 22, "8.8.8.8"), "8.8.8.8"),
        (("2606:4700::1111", 22, "2606:4700::1111"), "2606:4700::1111"),
    ],
)
@pytest.mark.parametrize("bound", [b"\x01" + bytes(6), b"\x04" + bytes(18), b"\x03\x01a\0\0"])
def test_socks_sends_the_name_and_takes_nothing_of_its_answer(
    to: tuple[str, int, *tuple[str, ...]], host: str, bound: bytes
) -> None:
    seen: list[Request] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = SocksServer()
        data = await reader.read(100)
        while not seen:
            result = server.feed(data)
            data = b""
            if isinstance(result, Request):
                seen.append(result)
            elif hasattr(result, "data"):
                writer.write(result.data)
            else:
                data = await reader.read(100)
        writer.write(b"\x05\x00\x00" + bound + b"hello ")
        writer.write(await reader.readexactly(4))

    assert through(serve, "socks5h://127.0.0.1:{port}", destination(*to)) == b"hello ping"
    assert (seen[0].host.text, seen[0].port) == (host, to[1])


def test_socks_gives_credentials_when_asked() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readexactly(4))
        writer.write(b"\x05\x02")
        seen.append(await reader.readexactly(3 + 2 + 6))
        writer.write(b"\x01\x00")
        await reader.readexactly(4 + 1 + 8 + 2)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await reader.readexactly(4)

    assert through(serve, "socks5h://me:sesame@127.0.0.1:{port}") == b""
    assert seen == [b"\x05\x02\x00\x02", b"\x01\x02me\x06sesame"]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([b"\x05\xff"], "proxy"),
        ([b"\x05\x02"], "proxy"),  # nothing was offered but none
        ([b"\x04\x00"], "proxy"),
        ([b"\x05\x00", b"\x05\x02\x00\x01" + bytes(6)], "proxy"),
        ([b"\x05\x00", b"\x05\x04\x00\x01" + bytes(6)], "unreachable"),
        ([b"\x05\x00", b"\x05\x05\x00\x01" + bytes(6)], "refused"),
        ([b"\x05\x00", b"\x05\x00\x00\x09" + bytes(6)], "proxy"),
        ([b"\x05\x00", b"\x05\x00"], "proxy"),
        ([b""], "proxy"),
    ],
)
def test_a_socks_proxy_that_does_not_connect_is_unavailable(answers: list[bytes], code: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(100)
            writer.write(answer)

    with pytest.raises(Unavailable) as caught:
        through(serve, "socks5h://127.0.0.1:{port}")
    assert caught.value.code == code


def test_refused_credentials_are_not_told() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x05\x02")
        await reader.read(100)
        writer.write(b"\x01\x01")

    with pytest.raises(Unavailable, match="other credentials") as caught:
        through(serve, "socks5h://me:sesame@127.0.0.1:{port}")
    assert "sesame" not in str(caught.value)


def test_a_proxy_that_is_not_there_is_unavailable() -> None:
    async def run() -> None:
        async with Listener(lambda _reader, writer: writer.drain()) as proxy:
            port = proxy.port
        upstream = Upstream(Resolver(HostView()), f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable) as caught:
            await upstream.connect(destination())
        assert caught.value.code == "refused"

    asyncio.run(run())


def test_a_proxy_is_a_value() -> None:
    assert parse_proxy("http://a.test") == Proxy(scheme="http", host=Host.parse("a.test"), port=80)

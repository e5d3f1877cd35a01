from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.hello import NeedMore
from paddock.gateway.socks import BadSocks, Code, Reply, Request, SocksServer, reply
from paddock.policy import Host

GREETING = b"\x05\x01\x00"
AGREED = Reply(b"\x05\x00")


def connect(address: bytes, port: int = 443, *, version: int = 5, command: int = 1, reserved: int = 0) -> bytes:
    return bytes((version, command, reserved)) + address + port.to_bytes(2)


def named(name: bytes) -> bytes:
    return b"\x03" + bytes((len(name),)) + name


def conversation(chunks: list[bytes]) -> tuple[list[Reply | Request], str]:
    """All that was said and asked for, and how it ended."""
    server = SocksServer()
    got: list[Reply | Request] = []
    try:
        for chunk in chunks:
            result = server.feed(chunk)
            while not isinstance(result, NeedMore):
                got.append(result)
                if isinstance(result, Request):
                    return got, "done"
                result = server.feed(b"")
    except BadSocks as error:
        return got, f"{error.message} {error.reply.hex()}"
    return got, repr(server)


def by_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (named(b"Example.com"), "example.com"),
        (named(b"a." * 126 + b"b"), "a." * 126 + "b"),
        (named(b"192.0.2.1"), "192.0.2.1"),
        (b"\x01\xc0\x00\x02\x01", "192.0.2.1"),
        (b"\x04" + bytes(15) + b"\x01", "::1"),
        (b"\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01", "127.0.0.1"),  # HOST-05: mapped is what it leads to
    ],
)
@pytest.mark.parametrize("greeting", [GREETING, b"\x05\x03\x01\x02\x00"])
def test_a_connect_is_understood(greeting: bytes, address: bytes, host: str) -> None:
    data = greeting + connect(address)
    wanted = [AGREED, Request(host=Host.parse(host), port=443)]
    assert conversation(by_bytes(data)) == (wanted, "done")
    assert conversation([data]) == (wanted, "done")


def test_what_is_sent_ahead_is_kept() -> None:
    got, _ = conversation([GREETING + connect(named(b"a.test")) + b"\x16\x03\x01"])
    assert isinstance(got[-1], Request)
    assert got[-1].rest == b"\x16\x03\x01"


BAD = {  # PRX-13
    "socks4": (b"\x04\x01\x00\x50\x01\x02\x03\x04\x00", 0, "005b000000000000"),
    "http": (b"GET / HTTP/1.1\r\n", 0, ""),
    "no methods": (b"\x05\x00", 0, "05ff"),
    "password only": (b"\x05\x01\x02", 0, "05ff"),
    "other version": (GREETING + connect(named(b"a.test"), version=4), 1, "05010001000000000000"),
    "bind": (GREETING + connect(named(b"a.test"), command=2), 1, "05070001000000000000"),
    "udp": (GREETING + connect(named(b"a.test"), command=3), 1, "05070001000000000000"),
    "reserved": (GREETING + connect(named(b"a.test"), reserved=1), 1, "05010001000000000000"),
    "address type": (GREETING + connect(b"\x02a.test"), 1, "05080001000000000000"),
    "empty name": (GREETING + connect(named(b"")), 1, "05010001000000000000"),
    "long name": (GREETING + connect(named(b"a" * 255)), 1, "05010001000000000000"),
    "nul": (GREETING + connect(named(b"a.test\0.b.test")), 1, "05010001000000000000"),
    "space": (GREETING + connect(named(b"a test")), 1, "05010001000000000000"),
    "beyond ascii": (GREETING + connect(named("ä.test".encode())), 1, "05010001000000000000"),
    "hexadecimal": (GREETING + connect(named(b"0x7f000001")), 1, "05010001000000000000"),
    "short address": (GREETING + connect(named(b"127.1")), 1, "05010001000000000000"),
    "port in the name": (GREETING + connect(named(b"a.test:80")), 1, "05010001000000000000"),
    "port 0": (GREETING + connect(named(b"a.test"), 0), 1, "05010001000000000000"),
}


@pytest.mark.parametrize(("data", "replies", "last"), BAD.values(), ids=BAD)
def test_everything_else_is_refused(data: bytes, replies: int, last: str) -> None:
    got, end = conversation([data])
    assert len(got) == replies
    assert end.rpartition(" ")[2] == last
    assert conversation(by_bytes(data)) == (got, end)


def test_nothing_is_read_after_the_end() -> None:
    for data in (GREETING + connect(named(b"a.test")), b"\x04"):
        server = SocksServer()
        with contextlib.suppress(BadSocks):
            server.feed(data)
            server.feed(b"")
        for more in (b"", GREETING):
            with pytest.raises(BadSocks):
                server.feed(more)
        assert repr(server).startswith("<SocksServer ended")


def test_a_reply_says_nothing_about_us() -> None:
    assert reply(Code.SUCCEEDED) == b"\x05\x00\x00\x01" + bytes(6)
    assert reply(Code.NOT_ALLOWED)[1] == 2


@given(
    st.binary()
    | st.builds(bytes.__add__, st.just(GREETING), st.binary())
    | st.builds(lambda address, tail: GREETING + connect(named(address)) + tail, st.binary(max_size=20), st.binary())
)
def test_any_bytes_have_one_outcome_in_any_chunking(data: bytes) -> None:
    got, end = conversation([data])
    again, again_end = conversation(by_bytes(data))
    if got and isinstance(got[-1], Request):  # byte by byte, nothing is sent ahead
        got[-1] = Request(host=got[-1].host, port=got[-1].port)
    assert (again, again_end) == (got, end)

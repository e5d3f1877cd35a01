"""The readable refusal: what HTTP clients get, what TLS clients get, and what becomes of those that misbehave."""

from __future__ import annotations

import os
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.gateway.certificates import Authority, Leaves, make_authority
from paddock.gateway.refusal import ACCESS_DENIED_ALERT, TlsRefusal, http_response
from paddock.policy import Host

TEXT = "no rule allows example.com:443\nhint: paddock policy allow --box b example.com:443\n"
GET = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("box")


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return Leaves(authority, os.fspath(tmp_path_factory.mktemp("leaves"))).context(Host.parse("example.com"))


class Client:
    """A TLS client in memory, joined to a refusal; `step` bytes travel at once."""

    def __init__(
        self, authority: Authority, refusal: TlsRefusal, *, version: str = "TLSv1_3", step: int = 65536
    ) -> None:
        context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        self.refusal = refusal
        self._step = step
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="example.com")

    def carry(self) -> None:
        sent = self._out.read()
        for start in range(0, len(sent), self._step):
            self._in.write(self.refusal.feed(sent[start : start + self._step]))

    def shake_hands(self) -> None:
        for _ in range(5):
            try:
                self.tls.do_handshake()
                self.carry()
                return
            except ssl.SSLWantReadError:
                self.carry()
        raise AssertionError

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.carry()

    def read(self) -> bytes:
        """Everything until the server's close; an end without one raises."""
        found = b""
        try:
            while chunk := self.tls.read(65536):
                found += chunk
        except ssl.SSLZeroReturnError:
            pass
        return found


def test_a_response_is_whole() -> None:
    head, _, body = http_response(TEXT).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 403 Forbidden"
    assert b"Connection: close" in lines
    assert b"Content-Length: %d" % len(TEXT) in lines
    assert b"Content-Type: text/plain; charset=utf-8" in lines
    assert body == TEXT.encode()


def test_a_head_request_gets_no_body() -> None:
    assert http_response(TEXT, head_only=True) == http_response(TEXT).removesuffix(TEXT.encode())


@pytest.mark.parametrize(("status", "line"), [(400, b"400 Bad Request"), (505, b"505 HTTP"), (499, b"499 Refused")])
def test_every_status_has_a_phrase(status: int, line: bytes) -> None:
    assert http_response(TEXT, status=status).startswith(b"HTTP/1.1 " + line)


@given(st.text(max_size=200))
def test_a_text_never_leaves_the_body(text: str) -> None:
    head, _, body = http_response(text).partition(b"\r\n\r\n")
    assert head.count(b"\r\n") == 6
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert body == text.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("step", [1, 7, 65536])
@pytest.mark.parametrize("request_head", [GET, GET.replace(b"\r\n", b"\n"), b"POST / HTTP/1.1\r\n\r\nbody follows"])
def test_a_request_inside_tls_gets_the_text(
    authority: Authority, server: ssl.SSLContext, version: str, step: int, request_head: bytes
) -> None:
    client = Client(authority, TlsRefusal(server, TEXT), version=version, step=step)
    client.shake_hands()
    assert not client.refusal.done
    client.send(request_head)
    assert client.refusal.done
    assert client.refusal.delivered
    assert client.read() == http_response(TEXT)
    assert client.refusal.feed(b"more") == b""


def test_a_head_that_comes_in_pieces_is_waited_for(authority: Authority, server: ssl.SSLContext) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    client.shake_hands()
    for byte in GET[:-1]:
        client.send(bytes([byte]))
        assert not client.refusal.done
    client.send(GET[-1:])
    assert client.read() == http_response(TEXT)


def test_a_head_request_inside_tls_gets_no_body(authority: Authority, server: ssl.SSLContext) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    client.shake_hands()
    client.send(GET.replace(b"GET", b"HEAD"))
    assert client.read() == http_response(TEXT, head_only=True)


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"* OK", b"12", b"a" * 26, b"<xml>"])
def test_what_is_no_http_is_answered_at_once(authority: Authority, server: ssl.SSLContext, data: bytes) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    client.shake_hands()
    client.send(data)
    assert client.read() == http_response(TEXT)


def test_a_head_without_end_is_answered_at_the_bound(authority: Authority, server: ssl.SSLContext) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    client.shake_hands()
    client.send(GET[:-2])
    for _ in range(limits.REFUSAL_HEAD_BYTES // 1000 + 1):
        assert not client.refusal.done
        client.send(b"X-Filler: " + b"x" * 988 + b"\r\n")
    assert client.read() == http_response(TEXT)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_that_leaves_is_let_go(authority: Authority, server: ssl.SSLContext, version: str) -> None:
    client = Client(authority, TlsRefusal(server, TEXT), version=version)
    client.shake_hands()
    assert client.refusal.feed(b"") != b""  # our close
    assert client.refusal.done
    assert not client.refusal.delivered


def test_a_close_inside_tls_ends_it(authority: Authority, server: ssl.SSLContext) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    client.shake_hands()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.carry()
    assert client.refusal.done
    assert not client.refusal.delivered


def test_an_end_before_the_handshake_is_answered_with_an_alert(server: ssl.SSLContext) -> None:
    refusal = TlsRefusal(server, TEXT)
    assert refusal.feed(b"") == ACCESS_DENIED_ALERT
    assert refusal.done


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00" * 3,
        b"\x16\x03\x01\xff\xff" + b"\x00" * 70000,
        b"\x80\x2e\x01\x03\x01" + b"\x00" * 100,
        b"\x15\x03\x01\x00\x02\x02\x28",
    ],
)
def test_what_is_no_tls_ends_it(server: ssl.SSLContext, data: bytes) -> None:
    refusal = TlsRefusal(server, TEXT)
    refusal.feed(data)
    assert refusal.done
    assert not refusal.delivered


def test_a_client_of_old_tls_gets_the_alert_that_says_so(authority: Authority, server: ssl.SSLContext) -> None:
    """A hello of TLS 1.0 written by hand: today's OpenSSL does not write one."""
    suites = bytes.fromhex("0004 c02f 009c".replace(" ", ""))
    body = b"\x03\x01" + bytes(32) + b"\x00" + suites + b"\x01\x00"
    hello = b"\x01" + len(body).to_bytes(3, "big") + body
    refusal = TlsRefusal(server, TEXT)
    answer = refusal.feed(b"\x16\x03\x01" + len(hello).to_bytes(2, "big") + hello)
    assert answer[0] == 0x15
    assert answer[-2:] == b"\x02\x46"  # fatal, protocol_version
    assert refusal.done


def test_a_flood_ends_at_the_bound(authority: Authority, server: ssl.SSLContext) -> None:
    """A hello of 128 KiB in records of one byte: what a box can make us hold is bounded."""
    refusal = TlsRefusal(server, TEXT)
    refusal.feed(b"\x16\x03\x01\x00\x01\x01" + b"\x16\x03\x01\x00\x03\x01\xff\x00")
    records = b"\x16\x03\x01\x00\x01\x00" * 100
    for _ in range(limits.REFUSAL_FED_BYTES // len(records)):
        assert not refusal.done
        assert refusal.feed(records) == b""
    assert refusal.feed(records) == ACCESS_DENIED_ALERT
    assert refusal.done


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_any_bytes_end_or_wait_but_never_raise(server: ssl.SSLContext, pieces: list[bytes]) -> None:
    refusal = TlsRefusal(server, TEXT)
    for piece in pieces:
        refusal.feed(piece)
    assert not refusal.delivered


@given(st.data())
def test_a_damaged_handshake_ends_or_waits_but_never_delivers_to_the_wrong(
    authority: Authority, server: ssl.SSLContext, data: st.DataObject
) -> None:
    refusal = TlsRefusal(server, TEXT)
    client = Client(authority, refusal)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    hello = bytearray(client._out.read())
    for place in data.draw(st.lists(st.integers(0, len(hello) - 1), min_size=1, max_size=4)):
        hello[place] = data.draw(st.integers(0, 255))
    refusal.feed(bytes(hello))
    refusal.feed(GET)
    assert not refusal.delivered


def test_it_shows_its_state(authority: Authority, server: ssl.SSLContext) -> None:
    client = Client(authority, TlsRefusal(server, TEXT))
    assert repr(client.refusal) == "<TlsRefusal shaking hands, 0 bytes>"
    client.shake_hands()
    assert repr(client.refusal).startswith("<TlsRefusal reading, ")
    client.send(GET)
    assert repr(client.refusal).startswith("<TlsRefusal done, ")

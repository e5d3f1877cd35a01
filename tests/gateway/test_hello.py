from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.hello import Hello, HelloPeek, NeedMore, NotTls
from paddock.limits import CLIENT_HELLO_BYTES, CLIENT_HELLO_RECORDS_MAX

ECH = 0xFE0D


def vector(width: int, data: bytes) -> bytes:
    return len(data).to_bytes(width) + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2) + vector(2, data)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return extension(0, vector(2, b"".join(bytes((kind,)) + vector(2, name) for name in names)))


def message(
    *extensions: bytes,
    version: bytes = b"\x03\x03",
    session: bytes = b"",
    suites: bytes = b"\x13\x01",
    compression: bytes = b"\0",
    tail: bytes = b"",
) -> bytes:
    body = version + bytes(32) + vector(1, session) + vector(2, suites) + vector(1, compression)
    if extensions:
        body += vector(2, b"".join(extensions))
    return b"\x01" + vector(3, body + tail)


def records(data: bytes, size: int = 1 << 14) -> bytes:
    return b"".join(b"\x16\x03\x01" + vector(2, data[n : n + size]) for n in range(0, len(data), size))


NAMED = records(message(server_name(b"example.com")))


def outcome(chunks: list[bytes]) -> NeedMore | Hello | NotTls:
    peek = HelloPeek()
    result: NeedMore | Hello | NotTls = NeedMore()
    for chunk in chunks:
        result = peek.feed(chunk)
    assert peek.data == b"".join(chunks)
    return result


def by_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def real_hello(name: str | None, alpn: list[str]) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(alpn)
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def what_openssl_reads(data: bytes) -> list[str | None]:
    seen: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _tls, name, _context: seen.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    with pytest.raises(ssl.SSLError):
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return seen


@pytest.mark.parametrize(
    ("name", "alpn"), [("example.com", ["h2", "http/1.1"]), ("a.b.example.com", []), (None, ["h2"]), (None, [])]
)
def test_a_real_client_is_read_as_openssl_reads_it(name: str | None, alpn: list[str]) -> None:
    data = real_hello(name, alpn)
    assert outcome([data]) == Hello(sni=name, ech=False, alpn=tuple(alpn))
    assert what_openssl_reads(data) == [name]
    assert outcome(by_bytes(data)) == outcome([data])


def test_nothing_is_decided_before_the_last_byte() -> None:
    assert outcome([NAMED[:-1]]) == NeedMore()
    assert outcome([NAMED[:-1], NAMED[-1:]]) == Hello(sni="example.com", ech=False, alpn=())


def test_what_follows_a_hello_is_kept_and_not_judged() -> None:
    assert outcome([NAMED + b"\x17\x03\x03\x00\x01early data"]) == Hello(sni="example.com", ech=False, alpn=())


@pytest.mark.parametrize(
    ("data", "sni", "ech"),
    [
        (message(), None, False),
        (message(extension(11, b"\0")), None, False),
        (message(server_name(b"EXAMPLE.com.")), "EXAMPLE.com.", False),  # TLS-02: spelled as it came
        (message(server_name(b"192.0.2.1")), "192.0.2.1", False),
        (message(server_name(b"example.com"), extension(ECH, bytes(9))), "example.com", True),  # TLS-04
        (message(extension(0xFFCE, b"")), None, True),
        (message(extension(0xFE09, b""), server_name(b"a.test")), "a.test", True),
    ],
)
def test_name_and_encryption_of_the_name_are_seen(data: bytes, sni: str | None, ech: bool) -> None:
    assert outcome([records(data)]) == Hello(sni=sni, ech=ech, alpn=())


@pytest.mark.parametrize("size", [60, 200, 1 << 14])
def test_a_hello_in_a_few_records_is_read(size: int) -> None:
    data = records(message(server_name(b"example.com"), extension(21, bytes(500))), size)
    assert outcome([data]) == outcome(by_bytes(data)) == Hello(sni="example.com", ech=False, alpn=())


NOT_TLS = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "sslv2": b"\x80\x2e\x01\x00\x02",  # TLS-05
    "alert": b"\x15\x03\x01\x00\x02\x01\x00",
    "other major version": b"\x16\x02\x00\x00\x05",
    "empty record": b"\x16\x03\x01\x00\x00",
    "record too long": b"\x16\x03\x01\x40\x01",
    "server hello": b"\x16\x03\x03\x00\x04\x02\x00\x00\x00",
    "one byte in each record": records(message(server_name(b"example.com")), 1),  # TLS-05
    "too long": records(b"\x01" + CLIENT_HELLO_BYTES.to_bytes(3)),
    "two messages in a record": records(message(server_name(b"a.test")) + message(server_name(b"b.test"))),
    "cut inside": records(b"\x01" + vector(3, b"\x03\x03" + bytes(20))),
    "version": records(message(version=b"\x02\x00")),
    "long session": records(message(session=bytes(33))),
    "odd suites": records(message(suites=b"\x13")),
    "no suites": records(message(suites=b"")),
    "compression": records(message(compression=b"\x01")),
    "extension twice": records(message(server_name(b"a.test"), server_name(b"b.test"))),
    "two names": records(message(server_name(b"a.test", b"b.test"))),
    "no name in the list": records(message(extension(0, b"\0\0"))),
    "empty name": records(message(server_name(b""))),
    "name of another kind": records(message(server_name(b"a.test", kind=1))),
    "nul in the name": records(message(server_name(b"a.test\0.b.test"))),  # TLS-02
    "line break in the name": records(message(server_name(b"a.test\n"))),
    "name beyond ascii": records(message(server_name("ä.test".encode()))),
    "bytes after the name": records(message(extension(0, vector(2, b"\0" + vector(2, b"a.test")) + b"x"))),
    "empty protocols": records(message(extension(16, b"\0\0"))),
    "empty protocol": records(message(extension(16, vector(2, b"\0")))),
    "bytes after the extensions": records(message(server_name(b"a.test"), tail=b"x")),
    "extension cut": records(message(b"\0\0\0\x09")),
}


@pytest.mark.parametrize("data", NOT_TLS.values(), ids=NOT_TLS)
def test_what_could_be_read_in_two_ways_is_not_tls(data: bytes) -> None:
    assert isinstance(outcome([data]), NotTls)
    assert outcome(by_bytes(data)) == outcome([data])


def test_only_so_many_records_are_waited_for() -> None:
    data = message(extension(21, bytes(1000)))
    most = -(-len(data) // CLIENT_HELLO_RECORDS_MAX)
    assert isinstance(outcome([records(data, most)]), Hello)
    assert isinstance(outcome([records(data, most // 2)]), NotTls)


def test_the_decision_stands() -> None:
    peek = HelloPeek()
    refused = peek.feed(b"GET ")
    assert peek.feed(NAMED) == refused
    assert repr(peek) == "<HelloPeek NotTls(reason='not a TLS handshake')>"
    assert repr(HelloPeek()) == "<HelloPeek 0 bytes>"


MUTATED = st.builds(
    lambda base, at, new, tail: (base[: at % len(base)] + new + base[at % len(base) :])[: len(base) + tail],
    st.sampled_from(
        [NAMED, records(message(server_name(b"a.test"), extension(16, vector(2, b"\x02h2")), extension(ECH, b"")), 40)]
    ),
    st.integers(0, 500),
    st.binary(max_size=6),
    st.integers(-80, 8),
)
SPLICED = st.builds(
    lambda base, at, new: base[: at % len(base)] + new + base[at % len(base) + len(new) :],
    st.just(NAMED),
    st.integers(0, 500),
    st.binary(min_size=1, max_size=4),
)


@given(st.binary() | MUTATED | SPLICED)
def test_any_bytes_have_one_outcome_in_any_chunking(data: bytes) -> None:
    whole = outcome([data]) if data else NeedMore()
    assert isinstance(whole, (NeedMore, Hello, NotTls))
    assert outcome(by_bytes(data)) == whole

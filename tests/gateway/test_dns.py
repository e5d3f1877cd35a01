from __future__ import annotations

import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.gateway import dns
from paddock.gateway.dns import BadQuery, Ede, Query, TcpQueries, parse_query
from paddock.limits import DNS_QUERY_BYTES, DNS_UDP_BYTES

ADDRESS = IPv4Address("198.18.1.7")


def wire(*labels: bytes) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def opt(size: int = 1232, version: int = 0, options: bytes = b"", owner: bytes = b"\0") -> bytes:
    return owner + struct.pack("!HHBBHH", 41, size, 0, version, 0, len(options)) + options


def packet(
    name: bytes = wire(b"Example", b"com"),
    qtype: int = dns.A,
    qclass: int = dns.IN,
    *,
    flags: int = 0x0100,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    extra: bytes = b"",
) -> bytes:
    return struct.pack("!6H", 0x1234, flags, *counts) + name + struct.pack("!HH", qtype, qclass) + extra


def asked(data: bytes) -> Query:
    query = parse_query(data)
    assert isinstance(query, Query)
    return query


def with_edns(size: int = 1232) -> Query:
    return asked(packet(counts=(1, 0, 0, 1), extra=opt(size)))


def header(data: bytes) -> tuple[int, int, int, int, int, int]:
    ident, flags, *counts = struct.unpack_from("!6H", data)
    return ident, flags, counts[0], counts[1], counts[2], counts[3]


def test_a_question_is_read() -> None:
    query = asked(packet())
    assert query.host is not None
    assert (query.id, query.host.text, query.name, query.qtype, query.qclass) == (
        0x1234,
        "example.com",
        "Example.com",
        dns.A,
        dns.IN,
    )
    assert not query.edns


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ((), "."),
        ((b"a\0b", b"test"), r"a\x00b.test"),
        ((b"a b", b"test"), "a b.test"),
        ((b"a.b", b"test"), "a.b.test"),  # one label that would read as two
        ((b"\xc3\xa4", b"test"), "ä.test"),
        ((b"\xff", b"test"), r"\xff.test"),
        ((b"-a", b"test"), "-a.test"),
        ((b"192", b"0", b"2", b"1"), "192.0.2.1"),  # an address is no name
        ((b"0x7f", b"1"), "0x7f.1"),
        ((b"a:b",), "a:b"),
        ((b"\x1b[31m",), r"\x1b[31m"),
    ],
)
def test_a_name_that_is_no_host_is_a_question_without_one(labels: tuple[bytes, ...], name: str) -> None:
    query = asked(packet(wire(*labels)))
    assert (query.host, query.name) == (None, name)
    assert header(dns.refused(query))[1] & 0xF == dns.Rcode.REFUSED


def test_underscores_are_names() -> None:
    query = asked(packet(wire(b"_sip", b"Example", b"com")))
    assert query.host is not None
    assert query.host.text == "_sip.example.com"


@pytest.mark.parametrize("size", [0, 512, 1232, 4096, 65535])
def test_edns_says_how_much_fits(size: int) -> None:
    query = with_edns(size)
    assert query.edns
    assert query.udp_bytes == min(max(size, 512), DNS_UDP_BYTES)


def test_options_are_skipped() -> None:
    cookie = struct.pack("!HH", 10, 8) + bytes(8)
    assert asked(packet(counts=(1, 0, 0, 1), extra=opt(options=cookie + cookie))).edns


BAD = {  # DNS-06
    "empty": (b"", None),
    "short": (b"\x12\x34\x01\x00", None),
    "a response": (packet(flags=0x8180), None),
    "status": (packet(flags=0x1000), 4),
    "update": (packet(flags=0x2800), 4),
    "no question": (packet(counts=(0, 0, 0, 0)), 1),
    "two questions": (packet(counts=(2, 0, 0, 0)), 1),
    "answers": (packet(counts=(1, 1, 0, 0)), 1),
    "authorities": (packet(counts=(1, 0, 1, 0)), 1),
    "two extras": (packet(counts=(1, 0, 0, 2), extra=opt() + opt()), 1),
    "pointer": (packet(b"\xc0\x0c"), 1),
    "pointer inside": (packet(b"\x01a\xc0\x0c"), 1),
    "reserved label type": (packet(b"\x40a\0"), 1),
    "label of 64": (packet(b"\x40" + b"a" * 64 + b"\0"), 1),
    "name of 256": (packet(wire(*[b"a" * 63] * 4)), 1),
    "no end": (struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + b"\x01a", 1),
    "cut in the type": (packet()[:-1], 1),
    "header only": (packet()[:12], 1),
    "bytes after": (packet() + b"x", 1),
    "bytes after opt": (packet(counts=(1, 0, 0, 1), extra=opt() + b"x"), 1),
    "opt missing": (packet(counts=(1, 0, 0, 1)), 1),
    "opt with a name": (packet(counts=(1, 0, 0, 1), extra=opt(owner=wire(b"a"))), 1),
    "opt cut": (packet(counts=(1, 0, 0, 1), extra=opt()[:-1]), 1),
    "option cut": (packet(counts=(1, 0, 0, 1), extra=opt(options=b"\0\x0a\0\x09x")), 1),
    "option header cut": (packet(counts=(1, 0, 0, 1), extra=opt(options=b"\0\x0a\0")), 1),
    "extra is an address": (packet(counts=(1, 0, 0, 1), extra=b"\0" + struct.pack("!HHIH", 1, 1, 0, 4) + bytes(4)), 1),
    "other edns version": (packet(counts=(1, 0, 0, 1), extra=opt(version=1)), 0),
    "too long": (packet(counts=(1, 0, 0, 1), extra=opt(options=b"\0\x0a\x03\xe8" + bytes(1000))), 1),
}


@pytest.mark.parametrize(("data", "rcode"), BAD.values(), ids=BAD)
def test_a_malformed_question_gets_the_shortest_answer_or_none(data: bytes, rcode: int | None) -> None:
    bad = parse_query(data)
    assert isinstance(bad, BadQuery)
    if rcode is None:
        assert bad.response == b""
    else:
        assert header(bad.response)[0] == int.from_bytes(data[:2])
        assert header(bad.response)[1] & 0x800F == 0x8000 | rcode
        assert len(bad.response) <= len(data)  # never worth a spoofed source


def test_another_version_of_edns_is_named() -> None:
    bad = parse_query(packet(counts=(1, 0, 0, 1), extra=opt(version=1)))
    assert isinstance(bad, BadQuery)
    assert bad.response[-11:] == b"\0" + struct.pack("!HHIH", 41, DNS_UDP_BYTES, 1 << 24, 0)


# -- answers -----------------------------------------------------------------------------------------------------------
def test_an_answer_repeats_the_question_as_it_was_asked() -> None:
    data = packet()
    answer = dns.answer_address(asked(data), ADDRESS, 5)
    assert header(answer) == (0x1234, 0x8180, 1, 1, 0, 0)
    assert answer[12 : len(data)] == data[12:]
    assert answer[len(data) :] == b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + ADDRESS.packed


@pytest.mark.parametrize(
    ("answer", "rcode"),
    [
        (dns.nodata(asked(packet())), 0),
        (dns.refused(asked(packet())), 5),
        (dns.servfail(asked(packet())), 2),
    ],
)
def test_an_answer_without_an_address_is_a_header_and_the_question(answer: bytes, rcode: int) -> None:
    assert header(answer) == (0x1234, 0x8180 | rcode, 1, 0, 0, 0)
    assert len(answer) == len(packet())


def test_who_speaks_edns_is_told_why() -> None:
    answer = dns.refused(with_edns(), Ede.PROHIBITED, "no rule allows it")
    assert header(answer) == (0x1234, 0x8185, 1, 0, 0, 1)
    reason = struct.pack("!HHH", 15, 2 + 17, 18) + b"no rule allows it"
    assert answer[len(packet()) :] == b"\0" + struct.pack("!HHIH", 41, DNS_UDP_BYTES, 0, len(reason)) + reason


def test_a_reason_is_short_and_harmless() -> None:
    answer = dns.refused(with_edns(), Ede.OTHER, "\x1b[31m\n" + "ä" * 300)
    assert len(answer) < 512
    assert b"\x1b" not in answer
    assert b"\n" not in answer[-120:]


def test_what_does_not_fit_a_datagram_is_asked_for_over_tcp() -> None:
    query = asked(packet(wire(*[b"a" * 62] * 4), counts=(1, 0, 0, 1), extra=opt(512)))
    long = "x" * 120
    assert len(dns.refused(query, Ede.OTHER, long)) <= 512
    tight = Query(**{name: getattr(query, name) for name in Query.__slots__} | {"udp_bytes": 300})
    cut = dns.refused(tight, Ede.OTHER, long)
    assert header(cut)[1] & 0x0200
    assert header(cut)[2:] == (1, 0, 0, 0)
    assert not header(dns.refused(tight, Ede.OTHER, long, tcp=True))[1] & 0x0200


# -- over TCP ----------------------------------------------------------------------------------------------------------
def stream(chunks: list[bytes]) -> tuple[list[bytes], str]:
    queries = TcpQueries()
    got: list[bytes] = []
    try:
        for chunk in [*chunks, b""]:
            got += queries.feed(chunk)
    except UserError as error:
        return got, error.code
    return got, repr(queries)


def by_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def test_questions_come_one_after_the_other() -> None:
    data = dns.frame(packet()) * 2 + b"\0"
    assert stream([data]) == stream(by_bytes(data)) == ([packet()] * 2, "<TcpQueries 1 bytes pending>")


@pytest.mark.parametrize("length", [0, 11, DNS_QUERY_BYTES + 1, 65535])
def test_a_question_of_impossible_length_ends_the_stream(length: int) -> None:
    data = dns.frame(packet()) + length.to_bytes(2)
    assert stream([data]) == stream(by_bytes(data)) == ([packet()], "bad-dns")


@given(st.lists(st.binary(max_size=40).map(dns.frame) | st.binary(max_size=3), max_size=4).map(b"".join))
def test_any_stream_has_one_outcome_in_any_chunking(data: bytes) -> None:
    assert stream([data]) == stream(by_bytes(data))


MUTATED = st.builds(
    lambda base, at, new: base[: at % len(base)] + new + base[at % len(base) + len(new) :],
    st.sampled_from([packet(), packet(counts=(1, 0, 0, 1), extra=opt(options=b"\0\x0a\0\x01x"))]),
    st.integers(0, 60),
    st.binary(min_size=1, max_size=4),
)


@given(st.binary(max_size=80) | MUTATED)
def test_any_bytes_are_a_question_or_not(data: bytes) -> None:
    query = parse_query(data)
    if isinstance(query, BadQuery):
        assert len(query.response) <= max(len(data), 12)
        return
    for answer in (dns.answer_address(query, ADDRESS, 1), dns.nodata(query), dns.refused(query, Ede.OTHER, "why")):
        assert answer[:2] == data[:2]
        assert len(answer) <= query.udp_bytes

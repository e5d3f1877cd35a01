"""DER as OpenSSL reads it: the shortest form of everything, and a reader that takes no other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import Unavailable
from paddock.gateway import der


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (der.integer(0), "020100"),
        (der.integer(127), "02017f"),
        (der.integer(128), "02020080"),
        (der.integer(256), "02020100"),
        (der.oid("2.5.4.3"), "0603550403"),
        (der.oid("1.2.840.10045.4.3.2"), "06082a8648ce3d040302"),
        (der.bits(b"\x06", 1), "03020106"),
        (der.sequence(), "3000"),
        (der.sequence(der.integer(1), der.integer(2)), "3006020101020102"),
        (der.value(der.OCTET_STRING, b"x" * 128)[:3], "048180"),
        (der.value(der.OCTET_STRING, b"x" * 300)[:4], "0482012c"),
        (der.time(datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)), "170d" + b"491231235959Z".hex()),
        (der.time(datetime(2050, 1, 1, tzinfo=UTC)), "180f" + b"20500101000000Z".hex()),
    ],
)
def test_values_have_their_shortest_form(written: bytes, expected: str) -> None:
    assert written.hex() == expected


@given(st.integers(0, 30), st.binary(max_size=400), st.binary(max_size=20))
def test_what_is_written_is_read(tag: int, content: bytes, rest: bytes) -> None:
    assert der.read(der.value(tag, content) + rest) == (tag, content, rest)


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_a_sequence_is_its_children(contents: list[bytes]) -> None:
    values = [der.value(der.OCTET_STRING, content) for content in contents]
    assert der.children(der.sequence(*values)) == values


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        tag, content, rest = der.read(data)
    except Unavailable:
        return
    assert der.value(tag, content) + rest == data


@pytest.mark.parametrize(
    "data",
    [
        "",
        "30",
        "3001",
        "308100",  # one octet would do
        "30820001ff",
        "3080",  # indefinite length
        "30850000000001ff",
        "1f0100",  # a tag of several octets
        "3081",
        "308201",
    ],
)
def test_what_is_not_der_is_refused(data: str) -> None:
    with pytest.raises(Unavailable):
        der.read(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["0400", "300000", "3001ff", "3003020101"[:8]])
def test_only_one_whole_sequence_has_children(data: str) -> None:
    with pytest.raises(Unavailable):
        der.children(bytes.fromhex(data))

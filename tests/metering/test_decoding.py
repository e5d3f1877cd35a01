"""What is compressed is unfolded in pieces and within a bound."""

from __future__ import annotations

import gzip
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.limits import METER_UNFOLDED_BYTES
from paddock.metering.decoding import Decoder
from tests.metering.test_scanner import cut
from tests.support.properties import bounded


def decoded(encoding: str, *pieces: bytes) -> tuple[bytes, bool]:
    decoder = Decoder(encoding)
    return b"".join(part for piece in pieces for part in decoder.feed(piece)), decoder.readable


@pytest.mark.parametrize(
    ("encoding", "fold"),
    [("", bytes), ("identity", bytes), ("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress)],
)
def test_it_unfolds_what_it_knows(encoding: str, fold: object) -> None:
    data = os.urandom(1000) * 200
    assert callable(fold)
    assert decoded(encoding, fold(data)) == (data, True)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "nonsense"])
def test_what_it_does_not_know_is_not_readable(encoding: str) -> None:
    assert decoded(encoding, b"data") == (b"", False)


def test_broken_bytes_are_not_readable_and_no_error() -> None:
    assert decoded("gzip", b"not gzip at all")[1] is False
    assert decoded("gzip", gzip.compress(b"x" * 100)[:-8] + bytes(8))[1] is False


def test_a_bomb_is_given_up_at_the_bound() -> None:
    folder = zlib.compressobj(9, wbits=31)
    zeros = bytes(1024 * 1024)
    bomb = b"".join(folder.compress(zeros) for _ in range(2 * METER_UNFOLDED_BYTES // len(zeros))) + folder.flush()
    decoder = Decoder("gzip")
    largest = total = 0
    for piece in decoder.feed(bomb):
        largest, total = max(largest, len(piece)), total + len(piece)
    assert not decoder.readable
    assert largest <= 64 * 1024
    assert total <= METER_UNFOLDED_BYTES + 64 * 1024
    assert list(decoder.feed(bomb)) == []


@bounded
@given(st.binary(max_size=2000), st.lists(st.integers(0, 3000), max_size=10))
def test_any_pieces_give_the_same(data: bytes, places: list[int]) -> None:
    assert decoded("gzip", *cut(gzip.compress(data), places)) == (data, True)


@bounded
@given(st.binary(max_size=300))
def test_any_bytes_are_no_error(data: bytes) -> None:
    decoded("gzip", data)
    decoded("deflate", data)

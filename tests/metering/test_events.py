"""Events of a stream are read one by one, whatever pieces and line ends they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.metering.events import Events
from paddock.metering.scanner import Scanner
from tests.metering.test_scanner import Seen, cut
from tests.support.properties import bounded


def read(*pieces: bytes) -> Seen:
    seen = Seen()
    events = Events(Scanner(seen))
    for piece in pieces:
        events.feed(piece)
    return seen


STREAM = (
    b": comment {\n"
    b'event: start\ndata: {"a": 1}\n\n'
    b'data:{"b":\ndata: {"c": 2}}\n\n'
    b'data: {"cut": "\n\n'
    b'id: {"no": 9}\ndatax: {"no": 9}\ndat: {"no": 9}\n'
    b'data: {"a": 3}\n\n'
    b"data: [DONE]\n\n"
)
NUMBERS = [((b"a",), 1), ((b"b", b"c"), 2), ((b"a",), 3)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_data_is_read_and_nothing_else_is(end: bytes) -> None:
    assert read(STREAM.replace(b"\n", end)).numbers == NUMBERS


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_byte_by_byte_is_the_same(end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    assert read(*(stream[n : n + 1] for n in range(len(stream)))).numbers == NUMBERS


def test_an_event_that_was_cut_does_not_spoil_the_next() -> None:
    assert read(b'data: {"a": {"b": [\n\ndata: {"a": 1}\n\n').numbers == [((b"a",), 1)]


@bounded
@given(st.lists(st.integers(0, 10_000), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_pieces_of_a_stream_give_the_same(places: list[int], end: bytes) -> None:
    assert read(*cut(STREAM.replace(b"\n", end), places)).numbers == NUMBERS


@bounded
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_any_bytes_are_read_without_an_error(data: bytes, places: list[int]) -> None:
    whole, pieces = read(data), read(*cut(data, places))
    assert (whole.numbers, whole.strings) == (pieces.numbers, pieces.strings)

"""Numbers and strings are found at their places, whatever pieces the text comes in, and nothing else is kept."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.limits import METER_WORD_BYTES
from paddock.metering.scanner import Path, Scanner
from tests.support.properties import bounded


class Seen:
    def __init__(self) -> None:
        self.numbers: list[tuple[Path, int]] = []
        self.strings: list[tuple[Path, bytes, int]] = []

    def number(self, path: Path, value: int) -> None:
        self.numbers.append((path, value))

    def string(self, path: Path, value: bytes, length: int) -> None:
        self.strings.append((path, value, length))


def scanned(*pieces: bytes) -> Seen:
    seen = Seen()
    scanner = Scanner(seen)
    for piece in pieces:
        scanner.feed(piece)
    return seen


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('{"a": 1}', (b"a",), 1),
        ('{"a":{"b":{"c":12}}}', (b"a", b"b", b"c"), 12),
        ('[{"a": 1}, {"b": 2}]', (b"", b"b"), 2),
        ('{"x": [1, {"y": 2}], "a": 3}', (b"a",), 3),
        ('{"x": {"a": 2}, "a" : 1 }', (b"a",), 1),
        ('{"x": "a\\"b{", "a": 1\n}', (b"a",), 1),
        ('{"x": null, "y": true, "a": 0}', (b"a",), 0),
    ],
)
def test_a_number_is_found_at_its_place(text: str, path: Path, value: int) -> None:
    assert (path, value) in scanned(text.encode()).numbers


@pytest.mark.parametrize(
    "text", ['{"a": "1"}', '{"a": -1}', '{"a": 1.5}', '{"a": 1e3}', '{"x": "\\"a\\": 1"}', '{"a": null}']
)
def test_what_is_no_count_is_none(text: str) -> None:
    assert scanned(text.encode()).numbers == []


def test_a_string_is_found_and_a_key_is_not_taken_for_one() -> None:
    seen = scanned(b'{"model": "m-1", "list": ["x"], "n": 1}')
    assert seen.strings == [((b"model",), b"m-1", 3), ((b"list", b""), b"x", 1)]


def test_what_a_model_says_looks_like_no_place() -> None:
    said = json.dumps({"text": '{"usage": {"output_tokens": 5}}', "usage": {"output_tokens": 7}})
    assert scanned(said.encode()).numbers == [((b"usage", b"output_tokens"), 7)]


def test_a_long_string_is_measured_and_not_kept() -> None:
    text = b"x" * (METER_WORD_BYTES + 1)
    assert scanned(b'{"a": "' + text + b'"}').strings == [((b"a",), b"", len(text))]
    assert scanned(b'{"a": "' + text[1:] + b'"}').strings == [((b"a",), text[1:], METER_WORD_BYTES)]


def test_deeper_than_it_looks_it_finds_its_way_back() -> None:
    deep = b'{"d":' * 50 + b"1" + b"}" * 50
    assert scanned(b'{"x":' + deep + b',"a":2}').numbers == [((b"a",), 2)]


def test_a_new_text_begins_anew() -> None:
    seen = Seen()
    scanner = Scanner(seen)
    scanner.feed(b'{"a": {"b": "cut')
    scanner.reset()
    scanner.feed(b'{"a": 1}')
    assert seen.numbers == [((b"a",), 1)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**14) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@bounded
@given(JSON, st.lists(st.integers(0, 10_000), max_size=20), st.booleans())
def test_any_pieces_of_any_json_give_the_same(value: object, places: list[int], spread: bool) -> None:
    data = json.dumps(value, indent=2 if spread else None, ensure_ascii=False).encode("utf-8", "surrogatepass")
    whole, pieces, single = (
        scanned(data),
        scanned(*cut(data, places)),
        scanned(*(data[n : n + 1] for n in range(len(data)))),
    )
    assert whole.numbers == pieces.numbers == single.numbers
    assert whole.strings == pieces.strings == single.strings


@bounded
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 10**14), max_size=5))
def test_every_number_of_a_plain_object_is_found(value: dict[str, int]) -> None:
    assert scanned(json.dumps(value).encode()).numbers == [((key.encode(),), number) for key, number in value.items()]


@bounded
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=10))
def test_any_bytes_are_read_without_an_error(data: bytes, places: list[int]) -> None:
    whole, pieces = scanned(data), scanned(*cut(data, places))
    assert (whole.numbers, whole.strings) == (pieces.numbers, pieces.strings)


@pytest.mark.parametrize("piece", [b'{"a":', b"[", b'"', b"1", b'\\"', b" ", b"}", b'"x",'])
def test_memory_does_not_grow_with_the_text(piece: bytes) -> None:
    class Nothing(Seen):
        def string(self, path: Path, value: bytes, length: int) -> None: ...
        def number(self, path: Path, value: int) -> None: ...

    scanner = Scanner(Nothing())
    for _ in range(200):
        scanner.feed(piece * 100)
    held = sum(sys.getsizeof(value) for value in vars(scanner).values()) + sum(map(len, scanner._keys))
    assert held < 4096

"""Words are replaced wherever they lie in a stream, in any chunking the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.replacing import Replacing
from tests.support.properties import bounded

WORDS = {b"abab": b"1", b"abc": b"twenty-two", b"xx": b"yy"}


def run(pieces: list[bytes], words: dict[bytes, bytes]) -> tuple[bytes, set[bytes]]:
    replacing = Replacing(words)
    out = b"".join([*map(replacing.feed, pieces), replacing.end()])
    return out, replacing.found


@bounded
@given(st.text("abcx", max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_chunking_does_not_matter(text: str, cuts: list[int]) -> None:
    data = text.encode()
    ends = sorted({*(cut for cut in cuts if cut < len(data)), len(data)})
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert b"".join(pieces) == data
    for words in (WORDS, {b"abc": b"z"}):
        assert run(pieces, words) == run([data], words) == run([bytes([each]) for each in data], words)


@bounded
@given(st.text("abcx", max_size=40))
def test_one_word_is_replaced_as_bytes_replace_does(text: str) -> None:
    data = text.encode()
    assert run([data], {b"abc": b"value"})[0] == data.replace(b"abc", b"value")


def test_what_begins_no_word_is_not_held_back() -> None:
    replacing = Replacing({b"sk-secret": b"*********"})
    assert replacing.keeps_length
    assert replacing.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert replacing.feed(b"more s") == b"more "
    assert replacing.feed(b"k-") == b""
    assert replacing.feed(b"secre") == b""
    assert replacing.feed(b"ts") == b"*********"
    assert replacing.end() == b"s"
    assert replacing.found == {b"sk-secret"}
    assert not Replacing(WORDS).keeps_length
    assert repr(replacing) == "<Replacing 1 words, 1 found>"

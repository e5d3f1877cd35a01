"""A token that a program prints is kept back, however its output is cut."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from paddock.limits import SECRET_BYTES
from paddock.secrets.withheld import MASK, Withheld

PREFIX, TOKEN = b"sk-ant-oat", b"sk-ant-oat01-" + b"Ab_-9" * 19
TEXT = b"\x1b[1mYour token:\x1b[0m\r\n\r\n  " + TOKEN + b"\x1b[0m\r\nuse sk-ant-api and sk-a"
SHOWN = TEXT.replace(TOKEN, MASK)


def said(*pieces: bytes) -> tuple[bytes, list[bytes]]:
    output = Withheld(PREFIX)
    shown = b"".join(output.feed(piece) for piece in pieces)
    assert TOKEN[: len(PREFIX) + 1] not in shown
    return shown + output.finish(), [token.reveal().encode() for token in output.tokens()]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_it_is_kept_back_however_it_comes(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    assert said(*(TEXT[start:end] for start, end in itertools.pairwise(places))) == (SHOWN, [TOKEN])


def test_it_is_found_at_the_very_end_and_once_if_it_is_drawn_again() -> None:
    assert said(TOKEN) == (MASK, [TOKEN])
    assert said(TOKEN + b"\r" + TOKEN, b"\r\n") == (MASK + b"\r" + MASK + b"\r\n", [TOKEN])


def test_what_cannot_be_a_token_is_none_of_it() -> None:
    assert said(b"like sk-ant-oat01-... there") == (b"like " + MASK + b"... there", [])
    assert said(b"sk-ant", b"-o", b"ther") == (b"sk-ant-other", [])
    output = Withheld(PREFIX)
    assert output.feed(PREFIX + b"x" * (2 * SECRET_BYTES)) == MASK  # nothing is kept back for ever
    assert repr(output) == "<Withheld 1 found>"

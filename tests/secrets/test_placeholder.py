"""Placeholders look like the real thing, cannot be guessed, and are found where clients put them."""

from __future__ import annotations

import base64
import os
import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.secrets.placeholder import HEX, LETTERS, URLSAFE, Shape, basic, find, make
from tests.support.properties import bounded

SHAPE = Shape(prefix="sk-ant-", random_chars=93, alphabet=URLSAFE, suffix="AA")


def test_it_has_the_prefix_the_length_and_the_letters() -> None:
    text = make(SHAPE)
    assert re.fullmatch(r"sk-ant-[A-Za-z0-9_-]{93}AA", text)
    assert make(SHAPE) != text


@pytest.mark.parametrize("alphabet", [LETTERS, URLSAFE, HEX])
def test_every_letter_is_as_likely(alphabet: str) -> None:
    seen = Counter(make(Shape(random_chars=len(alphabet) * 500, alphabet=alphabet)))
    assert set(seen) == set(alphabet)
    assert max(seen.values()) < 2 * min(seen.values())


def test_it_is_made_of_the_given_randomness_alone() -> None:
    assert make(Shape(), lambda n: bytes(range(n))) == make(Shape(), lambda n: bytes(range(n)))


def test_bytes_that_fit_no_letter_are_not_used() -> None:
    sent = iter([b"\xff" * 40, b"\x00" * 40])
    assert make(Shape(), lambda _: next(sent)) == "a" * 40


@pytest.mark.parametrize(
    "shape",
    [
        {"random_chars": 21},
        {"random_chars": 31, "alphabet": HEX},
        {"alphabet": "aaaaaaaaaaaaaaaa"},
        {"prefix": "a b"},
        {"suffix": '"'},
        {"prefix": "ü"},
        {"alphabet": "abcdefghijklmnop+/"},
    ],
)
def test_a_shape_that_could_be_guessed_or_would_be_quoted_is_refused(shape: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match="a placeholder"):
        Shape(**shape)  # type: ignore[arg-type]  # the table mixes them


@pytest.mark.parametrize(
    "form",
    [
        b"%s",
        b"Bearer %s",
        b"token %s",
        b"a=1; key=%s; b=2",
        b"%s%s",
    ],
)
def test_it_is_found_in_the_plain(form: bytes) -> None:
    one, other = make(SHAPE), make(SHAPE)
    value = form.replace(b"%s", one.encode())
    assert find(value, [one, other]) == {one}


@pytest.mark.parametrize("form", ["%s:x-oauth-basic", "user:%s", ":%s", "%s", "x-access-token:%s"])
@pytest.mark.parametrize("word", [b"Basic ", b"basic ", b"BASIC  "])
def test_it_is_found_inside_basic_authentication(form: str, word: bytes) -> None:
    one, other = make(SHAPE), make(SHAPE)
    plain = form.replace("%s", one).encode()
    value = word + base64.b64encode(plain)
    assert one.encode() not in value
    assert find(value, [one, other]) == {one}
    assert basic(value) == plain


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Basic",
        b"Basic ",
        b"Basic a",
        b"Basic a=b=",
        b"Basic ab==cd",
        b"Bearer QUJD",
        b"Basic QUJ!",
        b"Basic QUJ=",
    ],
)
def test_what_is_no_canonical_base64_is_no_basic_authentication(value: bytes) -> None:
    assert basic(value) is None
    assert basic(b"Basic QUI=") == b"AB"


@bounded
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_around_it_do_not_hide_it(before: bytes, after: bytes) -> None:
    one = make(SHAPE, os.urandom)
    assert find(before + one.encode() + after, [one]) == {one}
    assert find(b"Basic " + base64.b64encode(before + one.encode() + after), [one]) == {one}
    assert find(before + after, [one]) == frozenset()


def test_the_largest_header_is_searched_in_a_moment() -> None:
    ours = [make(SHAPE) for _ in range(64)]
    hostile = (ours[0][:-1] * 1000).encode()[: 64 * 1024]
    start = time.process_time()
    assert find(hostile, ours) == frozenset()
    assert time.process_time() - start < 0.5

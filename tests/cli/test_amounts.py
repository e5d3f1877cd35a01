"""Amounts of options: positive numbers, or an error that names the option and the word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import amounts
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("parse", "word", "value"),
    [
        (amounts.size, "512m", 512 << 20),
        (amounts.size, "1.5GiB", 3 << 29),
        (amounts.duration, "90", 90.0),
        (amounts.duration, "1h30m", 5400.0),
        (amounts.duration, "0.5s", 0.5),
        (amounts.number, "1.5", 1.5),
        (amounts.number, "2", 2.0),
        (amounts.count, "100", 100),
    ],
)
def test_a_good_word_is_a_number(parse: Callable[[str, str], float | None], word: str, value: float) -> None:
    assert parse(word, "--option") == value


@pytest.mark.parametrize("parse", [amounts.size, amounts.duration, amounts.number, amounts.count])
def test_an_option_that_was_not_given_is_none(parse: Callable[[str, str], float | None]) -> None:
    assert parse("", "--option") is None


@pytest.mark.parametrize(
    ("parse", "words"),
    [
        (amounts.size, ["0", "-1", "lots", "1GB", "99999999999g", "\x1b[31m"]),
        (amounts.duration, ["0", "0s", "-1", "soon", "1w"]),
        (amounts.number, ["0", "-1", "nan", "inf", "1e99", "two", "1_0"]),
        (amounts.count, ["0", "-1", "1.5", "1e3", "two", "\u0662", "9" * 12]),
    ],
)
def test_a_bad_word_is_named_with_its_option(parse: Callable[[str, str], float | None], words: list[str]) -> None:
    for word in words:
        with pytest.raises(UserError, match="--option") as caught:
            parse(word, "--option")
        assert (repr(word)[1:-1] in caught.value.message, bool(caught.value.hint)) == (True, True)

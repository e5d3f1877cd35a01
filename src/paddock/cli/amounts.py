"""Sizes, counts and times that options give: positive numbers, or an error that names the option and the word."""

from __future__ import annotations

import math

from paddock import text
from paddock.errors import UserError


def size(word: str, option: str) -> int | None:
    """Bytes; None when the option was not given."""
    return _positive(_parse(text.parse_size, word, option), word, option) if word else None


def duration(word: str, option: str) -> float | None:
    """Seconds; None when the option was not given."""
    return _positive(_parse(text.parse_duration, word, option), word, option) if word else None


def number(word: str, option: str) -> float | None:
    if not word:
        return None
    try:
        value = math.nan if "_" in word else float(word)
    except ValueError:
        value = math.nan
    return _positive(value, word, option)


def count(word: str, option: str) -> int | None:
    if not word:
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise _bad(word, option, "a whole number")
    return _positive(int(word), word, option)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T", int, float)


def _parse(parse: Callable[[str], T], word: str, option: str) -> T:
    try:
        return parse(word)
    except UserError as error:
        raise UserError(f"{option}: {error.message}", hint=error.hint, code=error.code) from None


def _positive(value: T, word: str, option: str) -> T:
    if not 0 < value < 1e15:  # also not a NaN
        raise _bad(word, option, "a positive number")
    return value


def _bad(word: str, option: str, wanted: str) -> UserError:
    return UserError(f"{option}: {word!r} is not {wanted}", hint=f"for example {option} 2", code="bad-limit")

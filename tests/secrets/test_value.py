"""A value gets out by reveal() and in no other way."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import traceback
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.errors import UserError
from paddock.limits import SECRET_BYTES, SECRET_LEAST_CHARS
from paddock.secrets.value import Secret, read

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "sk-real-0123456789"


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    name: str
    value: Secret


def test_reveal_gives_the_value() -> None:
    assert Secret(TEXT).reveal() == TEXT


@pytest.mark.parametrize(
    "leak",
    [
        str,
        "{}".format,
        "%s".__mod__,
        lambda value: f"{value}",
        lambda value: f"{value:>40}",
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        json.dumps,
        hash,
        bytes,
        "".join,
        len,
        list,
        vars,
        lambda value: dataclasses.asdict(Holder("a", value)),
        lambda value: pickle.dumps(Holder("a", value)),
        lambda value: json.dumps(codec.to_wire(Holder("a", value))),
        lambda value: {value: 1},
    ],
)
def test_nothing_turns_it_into_text_or_bytes(leak: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as caught:
        leak(Secret(TEXT))
    assert TEXT not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("show", [repr, lambda value: repr(Holder("a", value)), lambda value: f"{value!r}"])
def test_its_repr_is_stars(show: Callable[[object], str]) -> None:
    shown = show(Secret(TEXT))
    assert "***" in shown
    assert TEXT not in shown


def test_a_log_line_that_shows_it_has_stars(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("using %r", Secret(TEXT))
    assert caplog.messages == ["using <Secret ***>"]


def test_two_of_the_same_value_are_equal_and_nothing_else_is() -> None:
    assert Secret(TEXT) == Secret(TEXT)
    assert Secret(TEXT) != Secret(TEXT + "x")
    assert Secret(TEXT) != TEXT
    assert Secret(TEXT).is_same(TEXT)
    assert not Secret(TEXT).is_same("")
    assert not Secret(TEXT).is_same("\udcff")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("x" * (SECRET_LEAST_CHARS - 1), "fewer than"),
        ("x" * (SECRET_BYTES + 1), "is over"),
        (f"{TEXT}\nX-Evil: 1", "line break"),
        (f"{TEXT}\r", "line break"),
        (f"{TEXT}\0", "cannot carry"),
        (f"{TEXT}\t", "cannot carry"),
        (f"{TEXT}\x7f", "cannot carry"),
        (f"{TEXT}é", "cannot carry"),
        (f"{TEXT}\udcff", "cannot carry"),
        (f" {TEXT}", "blank"),
        (f"{TEXT} ", "blank"),
    ],
)
def test_what_a_header_cannot_carry_is_refused_without_being_shown(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as caught:
        Secret(text, "'github'")
    assert "'github'" in caught.value.message
    assert TEXT not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("text", ["x" * SECRET_LEAST_CHARS, "x" * SECRET_BYTES, "with blanks inside", "!\"#$%&'()~"])
def test_plain_text_of_fair_length_is_a_value(text: str) -> None:
    assert Secret(text).reveal() == text


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_end_of_the_line_is_not_part_of_what_was_read(ending: bytes) -> None:
    assert read(TEXT.encode() + ending, "it").reveal() == TEXT


@pytest.mark.parametrize("data", [b"two\nlines of it", b"0123456789\n\n", b"\xff" * 20, "geheim€€€".encode()])
def test_more_than_a_line_or_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(UserError):
        read(data, "it")

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.text import duration, neutralise, parse_duration, parse_size, size, table

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
SAFE_TEXT = st.text(st.characters(codec="ascii", min_codepoint=0x20, max_codepoint=0x7E), max_size=60)
QUICK = settings(database=None, deadline=None, max_examples=300)

INVISIBLE_OTHERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u3164\uffa0\ufe0f\U000e0100\U000e01ef"


def is_visible(char: str) -> bool:
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char not in INVISIBLE_OTHERS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("src/main.py", "src/main.py"),
        ("naïve 日本語 🐎", "naïve 日本語 🐎"),
        (r"C:\x1b\n", r"C:\x1b\n"),
        ("", ""),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("one\ntwo\r\n\tthree", r"one\ntwo\r\n\tthree"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("gpj.\u202etxt", r"gpj.\u202etxt"),
        ("pay\u200bpal\ufeff\u2066", r"pay\u200bpal\ufeff\u2066"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("\ud800", r"\ud800"),
        ("\u2028\u2029\u0085", r"\u2028\u2029\x85"),
        (b"caf\xe9 \xff\xc3\xa9", "caf\\xe9 \\xff\u00e9"),
        (os.fsdecode(b"bad\xffname"), r"bad\xffname"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ],
)
def test_untrusted_text_shows_every_hidden_character(text: str | bytes, shown: str) -> None:
    assert neutralise(text) == shown


def test_no_character_of_unicode_stays_invisible() -> None:
    left = [hex(code) for code in range(sys.maxunicode + 1) if not all(map(is_visible, neutralise(chr(code))))]

    assert left == []


def test_visible_characters_of_unicode_stay_as_they_are() -> None:
    visible = [chr(code) for code in range(0x20, 0x3000) if unicodedata.category(chr(code))[0] in "LNPS"]
    changed = {char for char in visible if neutralise(char) != char}

    assert changed <= set(INVISIBLE_OTHERS)


@QUICK
@given(ANY_TEXT | st.binary(max_size=60), st.integers(0, 80))
def test_neutral_text_is_visible_bounded_and_stable(text: str | bytes, limit: int) -> None:
    shown = neutralise(text, limit)

    assert all(map(is_visible, shown))
    assert len(shown) <= limit
    assert neutralise(shown, limit) == shown
    shown.encode()


@QUICK
@given(SAFE_TEXT)
def test_safe_text_comes_back_unchanged(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "ab...[+9]"),
        ("\x1b" * 10, 20, r"\x1b\x1b\x1b...[+7]"),
        ("x" * 1_000_000, 16, "xxx...[+999997]"),
        ("abcdef", 5, "...[+"),
        ("abcdef", 0, ""),
    ],
)
def test_cut_text_says_how_much_is_missing_and_cuts_no_escape(text: str, limit: int, shown: str) -> None:
    assert neutralise(text, limit) == shown


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (1536, "1.5KiB"),
        (1024**2 - 1, "1MiB"),
        (20 * 1024**3, "20GiB"),
        (3 * 1024**5, "3072TiB"),
    ],
)
def test_sizes_are_short_and_binary(n_bytes: int, shown: str) -> None:
    assert size(n_bytes) == shown


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("0", 0),
        ("1024", 1024),
        ("7b", 7),
        ("512m", 512 * 1024**2),
        ("2G", 2 * 1024**3),
        ("1.5GiB", 3 * 1024**3 // 2),
        ("0.1k", 102),
        ("1TiB", 1024**4),
    ],
)
def test_a_size_is_read_with_or_without_unit(text: str, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize(
    "text",
    [
        *("", " 1", "1 g", "-1", "+1", "1.5", "1.5b", "1e9", "0x10", "GiB", "1GB", "1gi", "1.g", ".5g", "٣g", "1_0"),
        *("1\n", "9" * 19, "1048576t", "1g\x1b[2J", "nan", "inf", "1\u212a", "1k\u017f"),
    ],
)
def test_anything_else_is_no_size(text: str) -> None:
    with pytest.raises(UserError, match="is not a size") as caught:
        parse_size(text)

    assert caught.value.message.isprintable()
    assert caught.value.hint


@QUICK
@given(st.integers(0, 2**59))
def test_a_shown_size_can_be_typed_back(n_bytes: int) -> None:
    assert abs(parse_size(size(n_bytes)) - n_bytes) <= n_bytes * 0.06


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0.5", 0.5),
        ("30s", 30.0),
        ("0.25s", 0.25),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s", 93784.0),
    ],
)
def test_a_duration_is_read_as_seconds_or_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " 5m", "5 m", "-1", "1h30", "30m1h", "1.5h", "5M", "1e3", "inf", "nan", "٣s", "m", "1ms", "1\n", "9" * 10],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(UserError, match="is not a duration") as caught:
        parse_duration(text)

    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1.0, "0s"),
        (0.0, "0s"),
        (0.26, "0.3s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.7, "1m"),
        (61.0, "1m1s"),
        (3600.0, "1h"),
        (5400.0, "1h30m"),
        (3605.0, "1h"),
        (93784.0, "1d2h"),
    ],
)
def test_durations_show_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@QUICK
@given(st.floats(0, 1e8))
def test_a_shown_duration_can_be_typed_back(seconds: float) -> None:
    assert parse_duration(duration(seconds)) <= seconds + 0.5


def test_a_table_is_aligned_without_trailing_blanks() -> None:
    shown = table([["claude-web", "running", ""], ["x", "stopped", "2h"]], ["NAME", "STATE", "AGE"])

    assert shown == "NAME        STATE    AGE\nclaude-web  running  -\nx           stopped  2h"


def test_a_table_counts_columns_not_characters() -> None:
    shown = table([["日本", "1"], ["e\u0301", "2"], ["abcd", "3"]], ["N", "V"])

    assert shown.split("\n") == ["N     V", "日本  1", "e\u0301     2", "abcd  3"]


def test_a_cell_cannot_add_a_line_or_a_control_to_a_table() -> None:
    shown = table([["a\nfake  running", "\x1b[2K\u202e"]], ["NAME", "STATE"])

    assert shown.split("\n") == ["NAME              STATE", r"a\nfake  running  \x1b[2K\u202e"]


def test_a_table_without_rows_is_its_header() -> None:
    assert table([], ["NAME", "STATE"]) == "NAME  STATE"


def test_rows_of_another_length_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="argument 2 is"):
        table([["only one"]], ["NAME", "STATE"])


def test_importing_text_does_not_load_the_unicode_tables() -> None:
    code = "import sys, paddock.text; sys.exit('unicodedata' in sys.modules)"

    env = {"PYTHONPATH": os.pathsep.join(sys.path)}

    assert subprocess.run([sys.executable, "-c", code], env=env, check=False, timeout=30).returncode == 0

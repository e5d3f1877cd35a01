"""Quotes and variables of Dockerfiles; the table is that of BuildKit's own tests where it has one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.images.substitution import Unsupported, expand, expand_heredoc, split
from paddock.limits import DOCKERFILE_VALUE_BYTES
from tests.support.properties import bounded

VARIABLES = {"PWD": "/home", "SHELL": "bash", "EMPTY": "", "X_1": "one", "SPACED": "a b"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hello", "hello"),
        ("he'll'o", "hello"),
        ("he'llo' wor'ld'", "hello world"),
        ("abc\\'def", "abc'def"),
        ("abc\\def", "abcdef"),
        ("abc\\\\def", "abc\\def"),
        ("'abc\\def'", "abc\\def"),
        ('"abc\\def"', "abc\\def"),
        ('"abc\\"def"', 'abc"def'),
        ('"abc\\\\def"', "abc\\def"),
        ('"a\\$PWD"', "a$PWD"),
        ("abc\\", "abc"),
        ("$PWD", "/home"),
        ("he$PWD.", "he/home."),
        ("he${PWD}xx", "he/homexx"),
        ("'$PWD'", "$PWD"),
        ('"$PWD"', "/home"),
        ("\\$PWD", "$PWD"),
        ("\\\\$PWD", "\\/home"),
        ("$X_1$SHELL", "onebash"),
        ("$NONE.", "."),
        ("${NONE}.", "."),
        ("he$", "he$"),
        ("he$.", "he$."),
        ("$1a", "a"),
        ("${PWD:-x}", "/home"),
        ("${NONE:-x}", "x"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${NONE-x}", "x"),
        ("${NONE:-}", ""),
        ("${PWD:+x}", "x"),
        ("${EMPTY:+x}", ""),
        ("${EMPTY+x}", "x"),
        ("${NONE+x}", ""),
        ("${PWD:?no}", "/home"),
        ("${NONE:-$SHELL}", "bash"),
        ("${NONE:-${OTHER:-deep}}", "deep"),
        ("${NONE:-'a}b'}", "a}b"),
        ('${NONE:-"a b"}', "a b"),
        ("${NONE:-a\\}b}", "a}b"),
        ("$SPACED", "a b"),
        ("ünï", "ünï"),
    ],
)
def test_text_is_expanded(text: str, value: str) -> None:
    assert expand(text, VARIABLES) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'abc", "closing '"),
        ('"abc', 'closing "'),
        ("${PWD", "not supported"),
        ("${PWD:", "not supported"),
        ("${}", "bad substitution"),
        ("${ PWD}", "bad substitution"),
        ("${NONE:-x", "closing }"),
        ("${NONE:?say why}", "NONE: say why"),
        ("${EMPTY:?}", "EMPTY: it is not set"),
        ("${PWD#/}", "not supported"),
        ("${PWD%e}", "not supported"),
        ("${PWD/a/b}", "not supported"),
        ("${PWD:0:1}", "not supported"),
        ("${!PWD}", "not supported"),
    ],
)
def test_what_cannot_be_expanded_is_said(text: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        expand(text, VARIABLES)


def test_the_escape_is_the_files_own() -> None:
    assert expand("c:\\dir`$PWD", VARIABLES, "`") == "c:\\dir$PWD"


def test_in_a_here_document_quotes_are_text() -> None:
    assert expand_heredoc('it\'s "$PWD" \\$PWD \\n ${NONE:-x}\n', VARIABLES) == 'it\'s "/home" $PWD \\n x\n'


def test_a_value_that_doubles_with_each_line_ends() -> None:
    variables = {"A": "x"}
    while len(variables["A"]) < DOCKERFILE_VALUE_BYTES:
        variables["A"] = expand("$A$A", variables)
    with pytest.raises(Unsupported, match="too long"):
        expand("$A$A", variables)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a b\tc", ["a", "b", "c"]),
        ("a='b c' d", ["a='b c'", "d"]),
        ('a="b c"d e', ['a="b c"d', "e"]),
        ("a=b\\ c d", ["a=b\\ c", "d"]),
        ("a='b\\' c", ["a='b\\'", "c"]),
        ('a="b\\" c" d', ['a="b\\" c"', "d"]),
        ("a='b c", ["a='b c"]),
        ("a\\", ["a\\"]),
    ],
)
def test_words_keep_their_quotes(text: str, words: list[str]) -> None:
    assert split(text) == words


@bounded
@given(st.text(alphabet="ab$ {}:-+?'\"\\X_1\n", max_size=60))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    split(text)
    for form in (expand, expand_heredoc):
        try:
            form(text, {"a": "b", "X_1": "$a"})
        except Unsupported:
            continue

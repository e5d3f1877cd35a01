"""-e, --env-file and what of the caller's own environment goes along."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

import pytest

from paddock.cli import environment
from paddock.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path


def given(env: list[str] | None = None, env_file: list[str] | None = None) -> argparse.Namespace:
    return argparse.Namespace(env=env or [], env_file=env_file or [])


def test_a_value_is_given_or_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "copied = twice")
    assert environment.chosen(given(["A=1", "B=", "C=x=y", "MINE"])) == {
        "A": "1",
        "B": "",
        "C": "x=y",
        "MINE": "copied = twice",
    }


def test_a_variable_that_is_not_set_is_no_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISSING", raising=False)
    with pytest.raises(UserError, match="'MISSING' is not set"):
        environment.chosen(given(["MISSING"]))


def test_options_win_over_files_and_later_files_over_earlier(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("A=one\nB=one\nC=one\n")
    (tmp_path / "two").write_text("B=two\nC=two\n")
    files = [str(tmp_path / name) for name in ("one", "two")]
    assert environment.chosen(given(["C=option"], files)) == {"A": "one", "B": "two", "C": "option"}


def test_a_file_has_comments_empty_lines_and_values_with_anything_in_them(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# comment\n\n  A = 1\nB=two words # not a comment\nC='quoted'\nD=\u00e4\x0cx\r\n")
    expected = {"A": " 1", "B": "two words # not a comment", "C": "'quoted'", "D": "\u00e4\x0cx"}
    assert environment.chosen(given(env_file=[str(file)])) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A=1\nnothing\n", "env:2: 'nothing' is not K=V"),
        (b"A=\xff\n", "it is not UTF-8 text"),
        (b"A=" + b"x" * (1 << 20), "is over 1 MiB"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "env").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        environment.chosen(given(env_file=[str(tmp_path / "env")]))
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        environment.chosen(given(env_file=[str(tmp_path / name)]))


def test_only_what_concerns_text_and_time_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in os.environ if key.startswith("LC_") or key in {"COLORTERM", "NO_COLOR", "LANGUAGE"}]:
        monkeypatch.delenv(key, raising=False)
    for key, value in {"LANG": "C.UTF-8", "TZ": "UTC", "SSH_AUTH_SOCK": "/s", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(key, value)
    assert environment.of_terminal(is_tty=False) == {"LANG": "C.UTF-8", "TZ": "UTC"}


def test_the_whole_locale_goes_along_and_an_editor_only_with_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"LC_TIME": "C", "LC_NUMERIC": "", "LANGUAGE": "en", "EDITOR": "vi", "VISUAL": "vim"}.items():
        monkeypatch.setenv(key, value)
    plain, there = environment.of_terminal(is_tty=False), environment.of_terminal(is_tty=True)
    assert (plain["LC_TIME"], plain["LANGUAGE"], plain.get("LC_NUMERIC")) == ("C", "en", None)
    assert {"EDITOR", "VISUAL"} & plain.keys() == set()
    assert (there["EDITOR"], there["VISUAL"]) == ("vi", "vim")


@pytest.mark.parametrize(("term", "passed"), [("xterm-kitty", "xterm-kitty"), ("", "xterm-256color")])
def test_a_terminal_has_a_kind(monkeypatch: pytest.MonkeyPatch, term: str, passed: str) -> None:
    monkeypatch.setenv("TERM", term)
    assert environment.of_terminal(is_tty=True)["TERM"] == passed
    assert "TERM" not in environment.of_terminal(is_tty=False)

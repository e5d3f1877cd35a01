"""The help of every verb reads as it did when somebody last looked at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.cli import nouns, pages, parser

HELP = Path(__file__).parent / "help"
WIDTH = 80


def help_of(page: str) -> str:
    if page == "paddock":
        return parser.overview()
    return parser.noun_overview(page) if page in nouns.NOUNS else parser.build(page).format_help()


PAGES = ["paddock", *nouns.NOUNS, *parser.pages()]


@pytest.mark.parametrize("page", PAGES)
def test_help_reads_as_its_snapshot(page: str) -> None:
    """PADDOCK_WRITE_HELP=1 writes the snapshots anew; read the diff before you commit it."""
    shown = help_of(page)
    snapshot = HELP / f"{page.replace(' ', '-')}.txt"
    if os.environ.get("PADDOCK_WRITE_HELP"):
        snapshot.write_text(shown, "utf-8")
    assert snapshot.read_text("utf-8") == shown
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_there_is_no_snapshot_of_a_verb_that_is_gone() -> None:
    assert {file.stem for file in HELP.iterdir()} == {page.replace(" ", "-") for page in PAGES}


@pytest.mark.parametrize("verb", parser.pages())
def test_every_option_says_what_it_does(verb: str) -> None:
    named = [action for action in parser.build(verb)._actions if action.option_strings]
    assert all(action.help for action in named)
    shown = parser.build(verb).format_help()
    assert all(option in shown for action in named for option in action.option_strings)


def test_the_overview_names_every_verb() -> None:
    shown = parser.overview()
    assert all(f"  {verb} " in shown for verb in pages.VERBS)

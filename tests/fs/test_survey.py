"""A survey looks at every directory once, and no tree keeps it longer than it may take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.fs.survey import Survey
from paddock.fs.walk import LISTABLE, Moved
from tests.fs.children import open_descriptors

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.fs.walk import Cursor


class Names(Survey):
    def __init__(self, entries_max: int = 100, seconds_max: float = 60.0) -> None:
        super().__init__(entries_max, seconds_max)
        self.found: set[str] = set()
        self.begun = 0
        self.moves = 0  # how often the tree is still to move

    def begin(self, _base: int) -> None:
        self.begun += 1
        self.found.clear()

    def look(self, cursor: Cursor) -> None:
        for entry in self.entries(cursor):
            self.found.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                cursor.level.waiting.append(entry.name)
        if self.moves:
            self.moves -= 1
            raise Moved


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/a/b").mkdir(parents=True)
    for name in ("a/file", "a/b/deep", "top"):
        (tmp_path / "tree" / name).touch()
    (tmp_path / "tree/link").symlink_to("/")
    return tmp_path / "tree"


def run(survey: Names, tree: Path) -> Names:
    before = open_descriptors()
    base = os.open(tree, LISTABLE)
    survey.run(base)
    os.close(base)
    assert open_descriptors() == before
    return survey


def test_every_directory_is_looked_at_and_no_link_entered(tree: Path) -> None:
    survey = run(Names(), tree)
    assert survey.found == {"a", "b", "file", "deep", "top", "link"}
    assert survey.complete


@pytest.mark.parametrize(("entries_max", "seconds_max"), [(5, 60.0), (100, -1.0)])
def test_a_bound_ends_it_and_is_told(tree: Path, entries_max: int, seconds_max: float) -> None:
    survey = run(Names(entries_max, seconds_max), tree)
    assert len(survey.found) == (5 if seconds_max > 0 else 0)
    assert not survey.complete


def test_a_tree_in_motion_is_looked_at_anew_with_what_is_left(tree: Path) -> None:
    moving = Names()
    moving.moves = 2
    assert run(moving, tree).begun == 3
    assert moving.found == {"a", "b", "file", "deep", "top", "link"}
    restless = Names(entries_max=50)
    restless.moves = 1_000
    assert not run(restless, tree).complete


def test_a_directory_that_went_away_is_passed_over(tree: Path) -> None:
    class Late(Names):
        def look(self, cursor: Cursor) -> None:
            super().look(cursor)
            cursor.level.waiting.append("never there")

    survey = Late()
    run(survey, tree)
    assert survey.complete
    survey.passed_over = frozenset()
    run(survey, tree)
    assert not survey.complete

"""The table is consistent: its places do not overlap, and it opens nothing wider than it says."""

from __future__ import annotations

import os

import pytest

from paddock.engines.process import credentials
from paddock.engines.process.toolchain_table import LAYOUTS, ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.root)
def test_a_row_is_well_formed(row: Row) -> None:
    assert row.tool
    assert row.root.startswith(("~/", "/"))
    assert all(place.startswith("~/") for place in row.also)
    assert not any("*" in os.path.dirname(place) for place in (row.root, *row.also))
    for place in (*row.shows, *row.secrets):
        assert os.path.normpath(place) == (place or ".")
        assert not place.startswith(("/", "..")), "everything else is below the root"
    for value in row.env.values():
        assert not value.startswith("/")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.root)
def test_no_row_shows_a_credential_or_the_home(row: Row) -> None:
    assert os.path.normpath(row.root) != "~"
    assert not any(credentials.looks_like_one(part) for place in row.shows for part in place.split("/"))


def test_no_place_lies_in_another() -> None:
    roots = [row.root for row in ROWS]
    assert len(set(roots)) == len(roots)
    assert [(a, b) for a in roots for b in roots if b.startswith(a + "/")] == []


def test_layouts_are_told_apart_by_their_markers() -> None:
    markers = [layout.marker for layout in LAYOUTS]
    assert len(set(markers)) == len(markers)

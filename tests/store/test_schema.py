"""A database of any earlier schema becomes one of ours."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from paddock.store import SCHEMA, Store
from paddock.store.schema import statements
from tests.store.rows import add, older, reopened, spec


def _tables(path: str) -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return set(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))


@pytest.mark.parametrize("version", range(1, SCHEMA))
def test_an_earlier_one_becomes_the_same_as_a_new_one(path: str, version: int) -> None:
    store = Store(path)
    row = add(store, "aa", spec(layers=("/dir",)))
    store.close()
    whole = _tables(path)
    older(path, version)
    assert _tables(path) < whole
    assert reopened(path) == [row]
    assert _tables(path) == whole
    store = Store(path, is_first=False)
    assert store.layers() == ({"/dir"})
    store.close()


def test_nothing_is_made_anew_in_a_database_of_ours() -> None:
    assert statements(SCHEMA) == ()
    assert len(statements(0)) == len(statements(1)) + 2

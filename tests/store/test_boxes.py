"""Boxes: what is acknowledged is there, and a damaged row is said and kept."""

from __future__ import annotations

import dataclasses

import pytest

from paddock.errors import Unavailable
from paddock.model import BoxId, BoxState
from paddock.store import Store, free_position
from tests.store.rows import EVIDENCE, add, execute, older, reopened, spec


def test_a_box_is_read_back_as_it_was_written(store: Store, path: str) -> None:
    row = add(store, "aa", spec())
    assert reopened(path) == [row]
    assert (row.state, row.reason, row.evidence, row.position) == (BoxState.CREATED, "", None, 0)


def test_a_change_is_on_disk_before_it_is_acknowledged(store: Store, path: str) -> None:
    row = add(store, "aa", spec())
    row = store.set_state(row, BoxState.RUNNING, "", EVIDENCE)
    assert (row.state, row.evidence) == (BoxState.RUNNING, EVIDENCE)
    assert reopened(path) == [row]
    row = store.set_state(row, BoxState.FAILED, "it broke")
    assert (row.state, row.reason, row.evidence) == (BoxState.FAILED, "it broke", None)
    assert reopened(path) == [row]
    row = store.set_spec(row, spec(env={"COLOUR": "red"}))
    assert row.spec.env == {"COLOUR": "red"}
    assert reopened(path) == [row]
    store.remove("aa")
    assert reopened(path) == []


def test_positions_are_the_lowest_free_ones(store: Store) -> None:
    rows = [add(store, f"a{n}", spec(f"n{n}")) for n in range(4)]
    assert [row.position for row in rows] == [0, 1, 2, 3]
    store.remove("a1")
    assert [add(store, f"b{n}", spec(f"m{n}")).position for n in range(2)] == [1, 4]


@pytest.mark.parametrize(("taken", "free"), [((), 0), ((0, 1, 2), 3), ((0, 2), 1), ((5,), 0)])
def test_a_free_position(taken: tuple[int, ...], free: int) -> None:
    assert free_position(taken) == free


def test_a_name_cannot_be_taken_twice(store: Store, path: str) -> None:
    add(store, "aa", spec("one"))
    with pytest.raises(Unavailable, match="UNIQUE"):
        add(store, "bb", spec("one"))
    assert [row.id for row in reopened(path)] == ["aa"]


# -- damaged rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE boxes SET spec = 'not json' WHERE id = 'bad'", "Expecting value"),
        ("UPDATE boxes SET spec = '{}' WHERE id = 'bad'", "missing key 'name'"),
        ("UPDATE boxes SET spec = replace(spec, '\"agent\"', '\"agenT\"') WHERE id = 'bad'", "unknown key 'agenT'"),
        ("UPDATE boxes SET spec = replace(spec, '/work', '/root') WHERE id = 'bad'", "does not match its sum"),
        ("UPDATE boxes SET name = 'other' WHERE id = 'bad'", "does not match its sum"),
        ("UPDATE boxes SET spec_sum = 7 WHERE id = 'bad'", "does not match its sum"),
        ("UPDATE boxes SET state = 'flying' WHERE id = 'bad'", "'flying' is not a valid BoxState"),
    ],
)
def test_a_damaged_row_is_reported_and_kept_and_the_others_are_read(
    store: Store, path: str, statement: str, problem: str
) -> None:
    good = [add(store, f"good{n}", spec(f"good{n}")) for n in range(2)]
    add(store, "bad", spec("bad"))
    execute(path, statement)
    rows, (damage,) = store.load()
    assert rows == good
    assert damage.id == "bad"
    assert problem in damage.problem
    assert store._db.execute("SELECT count(*) FROM boxes").fetchone() == (3,)
    assert add(store, "new", spec("new")).position == 3  # the damaged one keeps its own


def test_evidence_that_is_not_whole_is_no_evidence(store: Store, path: str) -> None:
    store.set_state(add(store, "aa", spec()), BoxState.RUNNING, "", EVIDENCE)
    execute(path, "UPDATE boxes SET start_ticks = NULL")
    (found,) = reopened(path)
    assert (found.state, found.evidence) == (BoxState.RUNNING, None)


def test_a_box_is_not_read_under_another_id(store: Store, path: str) -> None:
    add(store, "bad", spec("bad"))
    execute(path, "UPDATE boxes SET id = 'bed' WHERE id = 'bad'")
    rows, (damage,) = store.load()
    assert (rows, damage.problem) == ([], "its spec does not match its sum")


def test_a_lost_box_keeps_its_own_row(store: Store, path: str) -> None:
    row = dataclasses.replace(
        add(store, "aa", spec()), id=BoxId("bb"), position=7, spec=spec("two"), state=BoxState.STOPPED, reason="x"
    )
    store.insert(row)
    assert reopened(path)[1] == row


def test_a_database_of_the_first_schema_learns_of_layers(path: str) -> None:
    store = Store(path)
    add(store, "one", spec("one", layers=("/dir", "sha256:a")))
    add(store, "damaged", spec("damaged", layers=("sha256:b",)))
    store.close()
    older(path, 1)
    execute(path, "UPDATE boxes SET spec_sum = 0 WHERE id = 'damaged'")
    for _ in range(2):
        store = Store(path, is_first=False)
        assert store.layers() == {"/dir", "sha256:a"}
        assert [row.id for row in store.load()[0]] == ["one"]
        store.close()

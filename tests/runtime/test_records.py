"""A box's own record: enough to have the box again when the database is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec, BoxState, Network
from paddock.runtime import records
from paddock.store import BoxRow, Store, new_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = BoxSpec(name="one", agent="shell", workspace="/work", env={"COLOUR": "blue"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(str(tmp_path / "paddock.db"))
    yield opened
    opened.close()


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    (tmp_path / "boxes" / "aa").mkdir(parents=True)
    return tmp_path / "boxes"


def add(store: Store, boxes: Path, box_id: str, spec: BoxSpec) -> BoxRow:
    row = new_row(BoxId(box_id), spec, ())
    records.add(store, str(boxes / box_id), row)
    return row


def read(boxes: Path, box_id: str) -> BoxRow:
    return records.read(str(boxes), BoxId(box_id), (), ())


@pytest.mark.parametrize("ephemeral", [False, True])
def test_what_was_added_is_read_back(store: Store, boxes: Path, ephemeral: bool) -> None:
    row = add(store, boxes, "aa", replace(SPEC, ephemeral=ephemeral))
    assert read(boxes, "aa") == row


def test_a_box_of_a_version_without_networks_is_read_and_reaches_nothing(store: Store, boxes: Path) -> None:
    row = add(store, boxes, "aa", SPEC)
    path = boxes / "aa" / records.FILE
    record = json.loads(path.read_text())
    del record["spec"]["network"]
    path.write_text(json.dumps(record))
    assert read(boxes, "aa") == row
    assert row.spec.network == Network()


def test_a_box_without_room_for_its_record_is_not_added(store: Store, boxes: Path) -> None:
    with pytest.raises(Unavailable):
        add(store, boxes, "missing", SPEC)
    assert store.load() == ([], [])


def test_a_changed_spec_is_in_both_places(store: Store, boxes: Path) -> None:
    row = add(store, boxes, "aa", SPEC)
    changed = records.change(store, str(boxes / "aa"), row, replace(SPEC, env={"COLOUR": "red"}))
    assert store.load()[0] == [changed]
    assert read(boxes, "aa") == changed


def test_a_spec_that_cannot_be_stored_changes_neither(store: Store, boxes: Path) -> None:
    row = add(store, boxes, "aa", SPEC)
    store._db.execute("CREATE TRIGGER no BEFORE UPDATE ON boxes BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(Unavailable):
        records.change(store, str(boxes / "aa"), row, replace(SPEC, env={}))
    assert store.load()[0] == [row]
    assert read(boxes, "aa") == row


def test_a_restored_box_is_stopped_and_has_its_jobs(store: Store, boxes: Path) -> None:
    made = add(store, boxes, "aa", SPEC)
    for name in ("home", "journal"):
        (boxes / "aa" / name).mkdir()
    for name in ("j1.0", "j1.1"):
        (boxes / "aa" / "journal" / name).touch()
    store.remove("aa")
    row = read(boxes, "aa")
    records.restore(store, str(boxes / "aa"), row)
    assert store.load()[0] == [replace(made, state=BoxState.STOPPED)]
    assert [(job.id, job.argv) for job in store.jobs("aa")] == [("j1", records.LOST_ARGV)]


def test_a_restored_box_gets_out_of_the_way_of_others(store: Store, boxes: Path) -> None:
    lost = add(store, boxes, "aa", SPEC)
    row = records.read(str(boxes), BoxId("aa"), {lost.spec.name}, {lost.position})
    assert (row.spec.name, row.position) == ("one-2", 1)


def test_a_directory_that_is_gone_is_made_again_with_its_record(boxes: Path) -> None:
    row = new_row(BoxId("cc"), SPEC, ())
    records.remake(str(boxes / "cc"), row)
    assert read(boxes, "cc") == row
    assert (boxes / "cc").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"position": 0, "created_at": "", "spec": {"name": "../x"}}', "\0\0\0\0"]
)
def test_a_record_that_cannot_be_read_is_refused(boxes: Path, text: str) -> None:
    (boxes / "aa" / records.FILE).write_text(text)
    with pytest.raises((PaddockError, ValueError)):
        read(boxes, "aa")


def test_the_record_is_json_for_people_too(store: Store, boxes: Path) -> None:
    add(store, boxes, "aa", SPEC)
    assert json.loads((boxes / "aa" / records.FILE).read_text())["spec"]["env"] == {"COLOUR": "blue"}

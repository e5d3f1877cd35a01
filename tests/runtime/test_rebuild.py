"""A damaged database is rebuilt from the boxes on disk, and nothing is thrown away."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import codec, fs
from paddock.errors import Unavailable
from paddock.model import BoxSpec
from paddock.paths import Paths
from paddock.runtime import records
from paddock.runtime.rebuild import rebuild
from paddock.store import Store, TemplateRow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def where(tmp_path: Path) -> Paths:
    return Paths({"PADDOCK_HOME": os.fspath(tmp_path)})


def _put(where: Paths, box_id: str, text: bytes | None) -> None:
    """A box that ran once, and its record."""
    os.makedirs(f"{where.boxes}/{box_id}/home")
    if text is not None:
        with open(f"{where.boxes}/{box_id}/{records.FILE}", "wb") as file:
            file.write(text)


def _record(name: str) -> bytes:
    record = records.Record(position=0, created_at="2026-01-01T00:00:00.000+00:00", spec=_spec(name))
    return json.dumps(codec.to_wire(record)).encode()


def _spec(name: str) -> BoxSpec:
    return BoxSpec(name=name, agent="shell", workspace="/w", env={"A": "1"})


def _rows(where: Paths) -> dict[str, BoxSpec]:
    store = Store(where.database)
    rows, damaged = store.load()
    store.close()
    assert damaged == []
    return {row.id: row.spec for row in rows}


def test_boxes_come_back_from_their_own_files(where: Paths) -> None:
    _put(where, "aaa", _record("one"))
    _put(where, "bbb", _record("two"))
    assert rebuild(where) == ["box one: restored", "box two: restored"]
    assert _rows(where) == {"aaa": _spec("one"), "bbb": _spec("two")}


def test_templates_come_back_if_their_layers_are_there(where: Paths) -> None:
    os.makedirs(f"{where.layers}/sha256/{'a' * 64}/tree")
    rows = [
        TemplateRow(name="whole", tag="v1", chain=(f"sha256:{'a' * 64}",), config="{}"),
        TemplateRow(name="torn", tag="v1", chain=(f"sha256:{'b' * 64}",), config="{}"),
        TemplateRow(name="odd", tag="v1", chain=("../..",), config="{}"),
    ]
    with open(where.templates, "w", encoding="ascii") as file:
        json.dump([*map(codec.to_wire, rows), {"name": "other"}, 7], file)
    assert rebuild(where) == ["template whole:v1: restored"]
    store = Store(where.database)
    assert [replace(row, created_at="") for row in store.templates()] == rows[:1]
    store.close()
    for text in ("", "7", "[[", "[" * 100_000):
        with open(where.templates, "w", encoding="ascii") as file:
            file.write(text)
        assert not any(line.startswith("template ") for line in rebuild(where))


def test_the_old_database_is_kept(where: Paths) -> None:
    fs.make_private_dir(where.state)
    with open(where.database, "wb") as file:
        file.write(b"no database at all")
    (said,) = rebuild(where)
    kept = said.removeprefix("kept the old database as ")
    with open(kept, "rb") as file:
        assert file.read() == b"no database at all"
    assert _rows(where) == {}


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        _record("one")[:-5],
        _record("one").replace(b'"one"', b'"../x"'),
        _record("one").replace(b'"env"', b'"unknown"'),
        b"[" * 100_000,
    ],
)
def test_a_box_that_cannot_be_read_is_set_aside_whole(where: Paths, text: bytes | None) -> None:
    _put(where, "bad", text)
    _put(where, "good", _record("two"))
    report = rebuild(where)
    assert _rows(where) == {"good": _spec("two")}
    assert report[0].startswith("box bad: ")
    assert report[0].endswith(f"its files are now in {where.state}/unreadable-bad")
    assert os.path.isdir(f"{where.state}/unreadable-bad/home")


def test_two_boxes_of_one_name_are_both_kept(where: Paths) -> None:
    _put(where, "aaa", _record("one"))
    _put(where, "bbb", _record("one"))
    assert rebuild(where) == ["box one: restored", "box one-2: restored"]
    assert _rows(where) == {"aaa": _spec("one"), "bbb": _spec("one-2")}


def test_nothing_to_rebuild_is_said(where: Paths) -> None:
    assert rebuild(where) == ["there was nothing to rebuild"]


def test_a_daemon_that_runs_is_not_rebuilt_under(where: Paths) -> None:
    fs.make_private_dir(where.state)
    lock = fs.FileLock(where.daemon_lock)
    assert lock.try_acquire()
    try:
        with pytest.raises(Unavailable, match="a daemon is running"):
            rebuild(where)
    finally:
        lock.release()
    assert rebuild(where) == ["there was nothing to rebuild"], "the lock is free again"

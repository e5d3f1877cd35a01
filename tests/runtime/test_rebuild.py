"""A damaged database is rebuilt from the boxes on disk, and nothing is thrown away."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.errors import Unavailable
from paddock.model import BoxSpec
from paddock.paths import Paths
from paddock.runtime import journals
from paddock.runtime.rebuild import rebuild
from paddock.store import Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def where(tmp_path: Path) -> Paths:
    return Paths({"PADDOCK_HOME": os.fspath(tmp_path)})


def _put(where: Paths, box_id: str, text: bytes | None) -> None:
    os.makedirs(f"{where.boxes}/{box_id}/home")
    if text is not None:
        with open(f"{where.boxes}/{box_id}/spec.json", "wb") as file:
            file.write(text)


def _spec(name: str) -> BoxSpec:
    return BoxSpec(name=name, agent="shell", workspace="/w", env={"A": "1"})


def _rows(where: Paths) -> dict[str, BoxSpec]:
    store = Store(where.database)
    rows, damaged = store.load()
    store.close()
    assert damaged == []
    return {row.id: row.spec for row in rows}


def test_boxes_come_back_from_their_own_files(where: Paths) -> None:
    _put(where, "aaa", journals.spec_text(_spec("one")))
    _put(where, "bbb", journals.spec_text(_spec("two")))
    assert rebuild(where) == ["box one: restored", "box two: restored"]
    assert _rows(where) == {"aaa": _spec("one"), "bbb": _spec("two")}


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
        journals.spec_text(_spec("one"))[:-5],
        journals.spec_text(_spec("one")).replace(b'"one"', b'"../x"'),
        journals.spec_text(_spec("one")).replace(b'"env"', b'"unknown"'),
        b"[" * 100_000,
    ],
)
def test_a_box_that_cannot_be_read_is_set_aside_whole(where: Paths, text: bytes | None) -> None:
    _put(where, "bad", text)
    _put(where, "good", journals.spec_text(_spec("two")))
    report = rebuild(where)
    assert _rows(where) == {"good": _spec("two")}
    assert report[0].startswith("box bad: ")
    assert report[0].endswith(f"its files are now in {where.state}/unreadable-bad")
    assert os.path.isdir(f"{where.state}/unreadable-bad/home")


def test_two_boxes_of_one_name_are_not_both_lost(where: Paths) -> None:
    _put(where, "aaa", journals.spec_text(_spec("one")))
    _put(where, "bbb", journals.spec_text(_spec("one")))
    report = rebuild(where)
    assert len(_rows(where)) == 1
    assert report[0] == "box one: restored"
    assert os.path.isdir(f"{where.state}/unreadable-bbb")


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

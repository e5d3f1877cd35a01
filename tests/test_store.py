"""The database: what is acknowledged is there, what is damaged is said and kept, and nothing is reset silently."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec, BoxState, Evidence, Limits, Mount
from paddock.store import SCHEMA, BoxRow, CheckpointRow, JobRow, Store, exists, free_position, new_row, now, quarantine
from tests.support.scarcity import no_growth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVIDENCE = Evidence(pid=4321, start_ticks=99, boot_id="b007")


def spec(name: str = "one", **changes: object) -> BoxSpec:
    given = {
        "name": name,
        "agent": "shell",
        "workspace": "/work",
        "mounts": (Mount(source="/data", target="/mnt/data", read_only=True),),
        "env": {"COLOUR": "blue", "ODD": "\udcff\n\"'"},
        "limits": Limits(memory_bytes=1 << 30, cpus=1.5, wall_s=60.0),
        **changes,
    }
    return BoxSpec(**given)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "paddock.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()


def add(store: Store, box_id: str, spec: BoxSpec) -> BoxRow:
    """A new box in the lowest free position."""
    rows, damaged = store.load()
    row = new_row(BoxId(box_id), spec, {row.position for row in rows} | {damage.position for damage in damaged})
    store.insert(row)
    return row


def reopened(path: str) -> list[BoxRow]:
    """What a reader finds that knows nothing but the file."""
    other = Store(path, is_first=False)
    try:
        rows, damaged = other.load()
    finally:
        other.close()
    assert damaged == []
    return rows


def execute(path: str, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


# -- what is written is there ------------------------------------------------------------------------------------------


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


def test_it_waits_for_the_disk(store: Store) -> None:
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


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


def test_jobs_come_in_order_and_go_with_their_box(store: Store) -> None:
    for box in ("aa", "bb"):
        add(store, box, spec(box))
        for n in range(3):
            store.add_job(box, JobRow(id=f"j{n}", argv=("sh", "-c", f"{n}\udcff"), started_at=f"2026-01-0{3 - n}"))
    assert [job.id for job in store.jobs("aa")] == ["j2", "j1", "j0"]
    store.remove_job("aa", "j1")
    store.remove("bb")
    assert store.job_ids() == {("aa", "j0"), ("aa", "j2")}
    assert store.jobs("aa")[0].argv == ("sh", "-c", "2\udcff")


def test_a_batch_is_all_or_nothing(store: Store, path: str) -> None:
    kept = add(store, "aa", spec("one"))

    def change_much() -> None:
        with store.batch():
            store.remove("aa")
            add(store, "bb", spec("two"))
            assert [row.id for row in reopened(path)] == ["aa"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_much()
    assert reopened(path) == [kept]
    with store.batch():
        store.remove("aa")
        add(store, "bb", spec("two"))
    assert [row.id for row in reopened(path)] == ["bb"]


def test_the_file_is_private(store: Store, path: str) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_repr_names_the_file(store: Store, path: str) -> None:
    assert repr(store) == f"<Store {path}>"


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


def test_a_damaged_job_is_shown_without_its_words(store: Store, path: str) -> None:
    add(store, "aa", spec())
    store.add_job("aa", JobRow(id="j0", argv=("true",), started_at="2026"))
    execute(path, "UPDATE jobs SET argv = '[['")
    assert [job.argv for job in store.jobs("aa")] == [("?",)]


# -- damaged files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(path: str) -> str:
    """A closed database with enough in it to have several pages."""
    store = Store(path)
    with store.batch():
        for n in range(60):
            add(store, f"{n:012x}", spec(f"box{n}", env={"FILL": "x" * 600}))
    store.close()
    assert os.path.getsize(path) > 16 * 4096
    return path


def truncate(path: str, size: int) -> None:
    os.truncate(path, size)


def overwrite(path: str, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: truncate(path, 0), "it is empty, but there are boxes"),
        (os.unlink, "it is empty, but there are boxes"),
        (lambda path: truncate(path, 100), ""),
        (lambda path: truncate(path, 6 * 4096), ""),
        (lambda path: truncate(path, os.path.getsize(path) - 3000), ""),
        (lambda path: overwrite(path, 0, b"garbage!" * 12), "file is not a database"),
        (lambda path: overwrite(path, 4096, os.urandom(4096)), ""),
        (lambda path: overwrite(path, 0, bytes(os.path.getsize(path))), ""),
    ],
    ids=[
        "empty",
        "missing",
        "only a header",
        "a third",
        "less than a page short",
        "no header",
        "a page of noise",
        "zeroes",
    ],
)
def test_a_damaged_file_is_an_error_with_a_way_out_and_is_not_touched(filled: str, damage: object, said: str) -> None:
    damage(filled)  # type: ignore[operator]
    before = _bytes(filled)
    with pytest.raises(Unavailable) as caught:
        Store(filled, is_first=False)
    assert caught.value.code == "corrupt-store"
    assert "paddock doctor --rebuild" in caught.value.hint
    assert said in caught.value.message
    assert _bytes(filled) in {before, b""}


def _bytes(path: str) -> bytes:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return b""


def test_a_box_is_not_read_under_another_id(store: Store, path: str) -> None:
    add(store, "bad", spec("bad"))
    execute(path, "UPDATE boxes SET id = 'bed' WHERE id = 'bad'")
    rows, (damage,) = store.load()
    assert (rows, damage.problem) == ([], "its spec does not match its sum")


def test_flipped_bits_are_found_or_harmless(filled: str) -> None:
    """Over many random flips: an error, a row reported as damaged, or exactly what was written; never other specs."""
    chance = random.Random(8)
    with open(filled, "rb") as file:
        sound = file.read()
    written = {row.id: row.spec for row in reopened(filled)}
    outcomes = {"error": 0, "damage": 0, "harmless": 0}
    for _ in range(150):
        data = bytearray(sound)
        for _ in range(chance.choice([1, 1, 8])):
            data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
        with open(filled, "wb") as file:
            file.write(data)
        outcomes[_outcome(filled, written)] += 1
    assert min(outcomes.values()) > 0, outcomes


def _outcome(path: str, written: dict[BoxId, BoxSpec]) -> str:
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
    try:
        store = Store(path, is_first=False)
    except PaddockError as error:
        return _checked(error)
    try:
        rows, damaged = store.load()
    except PaddockError as error:
        return _checked(error)
    finally:
        store.close()
    for row in rows:
        assert row.id not in written or row.spec == written[row.id]
    return "damage" if damaged or {row.id for row in rows} != written.keys() else "harmless"


def _checked(error: PaddockError) -> str:
    assert error.code in {"corrupt-store", "newer-schema", "store"}
    assert error.hint
    return "error"


def test_a_database_that_lost_its_newest_pages_is_never_taken_for_a_new_one(path: str) -> None:
    """Its write-ahead log is gone, as after a careless copy: with it went the tables, or the last rows."""
    store = Store(path)
    add(store, "aa", spec())
    shutil.copy(path, path + ".copy")
    store.close()
    with pytest.raises(Unavailable, match="it is empty, but there are boxes"):
        Store(path + ".copy", is_first=False)


def test_a_database_of_a_newer_version_is_left_alone(filled: str) -> None:
    execute(filled, f"PRAGMA user_version={SCHEMA + 1}")
    with pytest.raises(Unavailable) as caught:
        Store(filled, is_first=False)
    assert caught.value.code == "newer-schema"
    assert "newer version" in caught.value.hint
    execute(filled, f"PRAGMA user_version={SCHEMA}")
    assert len(reopened(filled)) == 60


def test_a_first_database_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    assert not exists(path)
    Store(path, is_first=True).close()
    assert exists(path)
    assert reopened(path) == []


def test_a_quarantined_database_keeps_everything(store: Store, path: str) -> None:
    row = add(store, "aa", spec())
    moved = quarantine(path)
    store.close()
    assert not exists(path)
    assert reopened(moved) == [row]


# -- no room -----------------------------------------------------------------------------------------------------------


def test_without_room_a_change_fails_and_works_again_when_there_is(store: Store, path: str) -> None:
    kept = add(store, "aa", spec())
    big = spec("big", env={"FILL": "x" * 200_000})
    with no_growth(path, path + "-wal"), pytest.raises(Unavailable) as caught:
        add(store, "bb", big)
    assert caught.value.code == "disk"
    assert "free some disk space" in caught.value.hint
    assert store.load()[0] == [kept]
    assert reopened(path) == [kept]
    assert add(store, "bb", big) in reopened(path)


def test_a_lost_box_keeps_its_own_row(store: Store, path: str) -> None:
    row = dataclasses.replace(
        add(store, "aa", spec()), id=BoxId("bb"), position=7, spec=spec("two"), state=BoxState.STOPPED, reason="x"
    )
    store.insert(row)
    assert reopened(path)[1] == row


# -- layers and checkpoints --------------------------------------------------------------------------------------------


def test_layers_are_named_as_long_as_a_box_or_a_checkpoint_is_made_of_them(path: str) -> None:
    store = Store(path)
    one = add(store, "one", spec("one", layers=("/dir", "frozen:a")))
    add(store, "other", spec("other", layers=("frozen:b",)))
    assert store.layers() == {"/dir", "frozen:a", "frozen:b"}
    made = CheckpointRow(id="c", box=one.id, name="n", created_at=now(), storage="frozen:s", root=("/dir", "frozen:c"))
    store.add_checkpoint(made)
    assert store.layers() == {"/dir", "frozen:a", "frozen:b", "frozen:c", "frozen:s"}
    store.set_spec(one, dataclasses.replace(one.spec, layers=("/dir",)))
    assert "frozen:a" not in store.layers()
    store.finish_checkpoint("c")
    assert store.checkpoints() == [dataclasses.replace(made, is_whole=True)]
    assert (made.last, dataclasses.replace(made, root=()).last) == ("frozen:c", "frozen:s")
    store.begin_restore(one.id, "c")
    store.begin_restore(one.id, "c")
    assert store.restores() == {"one": "c"}
    store.end_restore(one.id)
    store.remove(one.id)
    assert (store.layers(), store.checkpoints()) == ({"frozen:b"}, [])
    store.close()


def test_a_database_of_the_first_schema_learns_of_layers(path: str) -> None:
    store = Store(path)
    add(store, "one", spec("one", layers=("/dir", "sha256:a")))
    add(store, "damaged", spec("damaged", layers=("sha256:b",)))
    store.close()
    old = ("checkpoint_layers", "restores", "checkpoints", "box_layers")
    for statement in (*(f"DROP TABLE {name}" for name in old), "PRAGMA user_version=1"):
        execute(path, statement)
    execute(path, "UPDATE boxes SET spec_sum = 0 WHERE id = 'damaged'")
    store = Store(path, is_first=False)
    assert store.layers() == {"/dir", "sha256:a"}
    assert [row.id for row in store.load()[0]] == ["one"]
    store.close()
    store = Store(path, is_first=False)
    assert store.layers() == {"/dir", "sha256:a"}
    store.close()

"""The file: what is acknowledged is there, what is damaged is said and kept, and nothing is reset silently."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable
from paddock.store import SCHEMA, Store, exists, quarantine
from tests.store.rows import add, execute, reopened, spec
from tests.support.scarcity import no_growth

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.model import BoxId, BoxSpec


def test_it_waits_for_the_disk(store: Store) -> None:
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


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

"""The one database: which boxes and jobs exist. SQLite in WAL mode with full synchronisation: acknowledged is on disk.

A box exists while it has both a row and a directory. The directory is made before the row and moved away before the
row goes, so a crash in between leaves an empty directory without a row (a box nobody was told of) or a row without a
directory (a removal nobody was told of); recovery finishes both. A directory with files in it and no row is neither:
the database lost it, and recovery takes the box back from its own record.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import codec
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec, BoxState, Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SCHEMA = 2
_SUFFIXES = ("", "-wal", "-shm")
_TABLES = (
    """
CREATE TABLE boxes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, workspace TEXT NOT NULL,
    position INTEGER NOT NULL UNIQUE, spec TEXT NOT NULL, spec_sum INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL,
    created_at TEXT NOT NULL, pid INTEGER, start_ticks INTEGER, boot_id TEXT) STRICT""",
    """
CREATE TABLE jobs (
    id TEXT NOT NULL, box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE,
    argv TEXT NOT NULL, started_at TEXT NOT NULL, PRIMARY KEY (box, id)) STRICT""",
)
# Since schema 2. What these tables name is what Layers.prune leaves: those of a box also stand in its spec, but a spec
# may be damaged, and its layers must not go for that.
_LAYER_TABLES = (
    """
CREATE TABLE box_layers (
    box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE, position INTEGER NOT NULL,
    layer TEXT NOT NULL, PRIMARY KEY (box, position)) STRICT""",
    """
CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY, box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE, name TEXT NOT NULL,
    created_at TEXT NOT NULL, is_whole INTEGER NOT NULL, UNIQUE (box, name)) STRICT""",
    """
CREATE TABLE checkpoint_layers (
    checkpoint TEXT NOT NULL REFERENCES checkpoints(id) ON DELETE CASCADE, part TEXT NOT NULL,
    position INTEGER NOT NULL, layer TEXT NOT NULL, PRIMARY KEY (checkpoint, part, position)) STRICT""",
    """
CREATE TABLE restores (
    box TEXT PRIMARY KEY REFERENCES boxes(id) ON DELETE CASCADE,
    checkpoint TEXT NOT NULL REFERENCES checkpoints(id)) STRICT""",
)
_ROOT, _STORAGE = "root", "storage"  # parts of a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRow:
    id: BoxId
    position: int
    spec: BoxSpec
    state: BoxState
    reason: str
    created_at: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    id: str
    argv: tuple[str, ...]
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """What a box was at a moment, by layers."""

    id: str
    box: BoxId
    name: str
    created_at: str
    storage: str  # what lay in its directory
    root: tuple[str, ...] = ()  # of a container, lowest first; what it had changed last
    is_whole: bool = False  # not yet: it is being frozen

    @property
    def last(self) -> str:
        """The layer that is made last: when it is there, all of them are."""
        return self.root[-1] if self.root else self.storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A row that cannot be read: kept, reported, never dropped silently."""

    id: str
    name: str
    position: int
    problem: str


class Store:
    """`is_first` says that no box can exist yet; otherwise a database without tables is a lost one, never a new one."""

    def __init__(self, path: str, *, is_first: bool = True) -> None:
        self._path = path
        self._depth = 0
        with _translated(path):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.text_factory = _text
            try:
                self._prepare(is_first=is_first)
            except BaseException:
                self._db.close()
                raise
        os.chmod(path, 0o600)

    def _prepare(self, *, is_first: bool) -> None:
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")
        version = self._check()
        if version == 0 and not is_first:
            raise _corrupt(self._path, "it is empty, but there are boxes")
        self._db.execute("PRAGMA journal_mode=WAL")
        if version < SCHEMA:
            with self._transaction():
                for statement in (*(_TABLES if version == 0 else ()), *_LAYER_TABLES):
                    self._db.execute(statement)
                for row in self.load()[0]:  # of schema 1
                    self._note_layers(row.id, row.spec)
                self._db.execute(f"PRAGMA user_version={SCHEMA}")

    def __repr__(self) -> str:
        return f"<Store {self._path}>"

    def close(self) -> None:
        self._db.close()

    def _check(self) -> int:
        """The schema of a sound database; 0 for one without any."""
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise _corrupt(self._path, str(verdict))
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA:
            raise Unavailable(
                f"{self._path} was written by a newer paddock (schema {version}, this one knows {SCHEMA})",
                hint="use the newer version, or move the state away by setting PADDOCK_HOME",
                code="newer-schema",
            )
        return int(version)

    # -- boxes ---------------------------------------------------------------------------------------------------------

    def insert(self, row: BoxRow) -> None:
        """Add a box; the caller knows that its name and position are free."""
        values = (row.id, row.spec.name, row.spec.agent, row.spec.workspace, row.position, *_packed(row, row.spec))
        with self._transaction():
            self._db.execute(
                "INSERT INTO boxes (id, name, agent, workspace, position, spec, spec_sum, state, reason, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, row.state.value, row.reason, row.created_at),
            )
            self._note_layers(row.id, row.spec)

    def remove(self, box_id: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM boxes WHERE id = ?", (box_id,))

    def set_state(self, row: BoxRow, state: BoxState, reason: str = "", evidence: Evidence | None = None) -> BoxRow:
        pid, ticks, boot = (evidence.pid, evidence.start_ticks, evidence.boot_id) if evidence else (None, None, None)
        with self._transaction():
            self._db.execute(
                "UPDATE boxes SET state = ?, reason = ?, pid = ?, start_ticks = ?, boot_id = ? WHERE id = ?",
                (state.value, reason, pid, ticks, boot, row.id),
            )
        return replace(row, state=state, reason=reason, evidence=evidence)

    def set_spec(self, row: BoxRow, spec: BoxSpec) -> BoxRow:
        with self._transaction():
            values = (*_packed(row, spec), spec.name, row.id)
            self._db.execute("UPDATE boxes SET spec = ?, spec_sum = ?, name = ? WHERE id = ?", values)
            if spec.layers != row.spec.layers:
                self._db.execute("DELETE FROM box_layers WHERE box = ?", (row.id,))
                self._note_layers(row.id, spec)
        return replace(row, spec=spec)

    def load(self) -> tuple[list[BoxRow], list[Damage]]:
        rows: list[BoxRow] = []
        damaged: list[Damage] = []
        query = (
            "SELECT id, name, position, spec, spec_sum, state, reason, created_at, pid, start_ticks, boot_id "
            "FROM boxes ORDER BY created_at, id"
        )
        with _translated(self._path):
            for values in self._db.execute(query):
                try:
                    rows.append(_row(values))
                except (PaddockError, ValueError, TypeError, KeyError) as error:
                    box_id, name, position = values[:3]
                    damaged.append(Damage(id=str(box_id), name=str(name), position=position, problem=str(error)))
        return rows, damaged

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def add_job(self, box_id: str, job: JobRow) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT INTO jobs (id, box, argv, started_at) VALUES (?, ?, ?, ?)",
                (job.id, box_id, json.dumps(job.argv), job.started_at),
            )

    def jobs(self, box_id: str) -> list[JobRow]:
        with _translated(self._path):
            found = self._db.execute(
                "SELECT id, argv, started_at FROM jobs WHERE box = ? ORDER BY started_at, rowid", (box_id,)
            ).fetchall()
        return [JobRow(id=job, argv=_words(argv), started_at=at) for job, argv, at in found]

    def job_ids(self) -> set[tuple[str, str]]:
        """(box, job) of every job."""
        with _translated(self._path):
            return {(box, job) for box, job in self._db.execute("SELECT box, id FROM jobs")}

    def remove_job(self, box_id: str, job_id: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM jobs WHERE box = ? AND id = ?", (box_id, job_id))

    # -- layers and checkpoints ----------------------------------------------------------------------------------------

    def _note_layers(self, box_id: str, spec: BoxSpec) -> None:
        rows = [(box_id, position, layer) for position, layer in enumerate(spec.layers)]
        self._db.executemany("INSERT INTO box_layers (box, position, layer) VALUES (?, ?, ?)", rows)

    def layers(self) -> set[str]:
        """Every layer that a box or a checkpoint is made of, also one that is being frozen."""
        with _translated(self._path):
            query = "SELECT layer FROM box_layers UNION SELECT layer FROM checkpoint_layers"
            return {layer for (layer,) in self._db.execute(query)}

    def add_checkpoint(self, row: CheckpointRow) -> None:
        parts = [(_STORAGE, 0, row.storage), *((_ROOT, number, layer) for number, layer in enumerate(row.root))]
        with self._transaction():
            self._db.execute(
                "INSERT INTO checkpoints (id, box, name, created_at, is_whole) VALUES (?, ?, ?, ?, ?)",
                (row.id, row.box, row.name, row.created_at, row.is_whole),
            )
            self._db.executemany(
                "INSERT INTO checkpoint_layers (checkpoint, part, position, layer) VALUES (?, ?, ?, ?)",
                [(row.id, *part) for part in parts],
            )

    def finish_checkpoint(self, checkpoint: str) -> None:
        with self._transaction():
            self._db.execute("UPDATE checkpoints SET is_whole = 1 WHERE id = ?", (checkpoint,))

    def remove_checkpoint(self, checkpoint: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM checkpoints WHERE id = ?", (checkpoint,))

    def checkpoints(self) -> list[CheckpointRow]:
        """Of all boxes, oldest first."""
        chains: dict[tuple[str, str], list[str]] = {}
        with _translated(self._path):
            for checkpoint, part, layer in self._db.execute(
                "SELECT checkpoint, part, layer FROM checkpoint_layers ORDER BY checkpoint, part, position"
            ):
                chains.setdefault((checkpoint, part), []).append(layer)
            rows = self._db.execute(
                "SELECT id, box, name, created_at, is_whole FROM checkpoints ORDER BY created_at, rowid"
            ).fetchall()
        return [
            CheckpointRow(
                id=found,
                box=BoxId(box),
                name=name,
                created_at=at,
                storage=chains[found, _STORAGE][0],
                root=tuple(chains.get((found, _ROOT), ())),
                is_whole=bool(is_whole),
            )
            for found, box, name, at, is_whole in rows
        ]

    def begin_restore(self, box_id: str, checkpoint: str) -> None:
        """From now on the box is to be as the checkpoint is, and is not yet."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO restores (box, checkpoint) VALUES (?, ?)", (box_id, checkpoint))

    def end_restore(self, box_id: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM restores WHERE box = ?", (box_id,))

    def restores(self) -> dict[str, str]:
        """The checkpoint of each box that is being restored."""
        with _translated(self._path):
            return dict(self._db.execute("SELECT box, checkpoint FROM restores").fetchall())

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes within are one: on disk together, with one wait for it."""
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._depth:  # inside a batch
            yield
            return
        with _translated(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1


def new_row(box_id: BoxId, spec: BoxSpec, taken: Collection[int]) -> BoxRow:
    """A box that is about to be, in the lowest free position."""
    return BoxRow(
        id=box_id, position=free_position(taken), spec=spec, state=BoxState.CREATED, reason="", created_at=now()
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def free_position(taken: Collection[int]) -> int:
    return next(n for n in range(len(taken) + 1) if n not in taken)


def quarantine(path: str) -> str:
    """Move a damaged database aside, whole; returns its new name."""
    moved = f"{path}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    for suffix in _SUFFIXES:
        if os.path.lexists(path + suffix):
            os.rename(path + suffix, moved + suffix)
    return moved


def exists(path: str) -> bool:
    """Whether any file of the database is there."""
    return any(os.path.lexists(path + suffix) for suffix in _SUFFIXES)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # bytes that are no text damage their row, not the reading of all others


def _packed(row: BoxRow, spec: BoxSpec) -> tuple[str, int]:
    """A spec as it is stored, with a sum: a bit that the disk turned must make neither another spec nor another box."""
    text = json.dumps(codec.to_wire(spec))
    return text, _sum(row.id, row.position, text)


def _sum(box_id: object, position: object, text: object) -> int:
    return zlib.crc32(f"{box_id} {position} {text}".encode())


def _words(argv: str) -> tuple[str, ...]:
    try:
        return tuple(str(word) for word in json.loads(argv))
    except (ValueError, TypeError):
        return ("?",)  # only shown to people


def _row(values: tuple[object, ...]) -> BoxRow:
    box_id, name, position, text, text_sum, state, reason, created_at, pid, ticks, boot = values
    evidence = None
    if isinstance(pid, int) and isinstance(ticks, int) and isinstance(boot, str):
        evidence = Evidence(pid=pid, start_ticks=ticks, boot_id=boot)
    assert isinstance(position, int)  # the table is STRICT
    spec = codec.from_wire(BoxSpec, json.loads(str(text)))
    if _sum(box_id, position, text) != text_sum or spec.name != name:
        msg = "its spec does not match its sum"
        raise ValueError(msg)
    return BoxRow(
        id=BoxId(str(box_id)),
        position=position,
        spec=spec,
        state=BoxState(state),
        reason=str(reason),
        created_at=str(created_at),
        evidence=evidence,
    )


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise Unavailable(
                f"cannot write {path}: {error}", hint="free some disk space; nothing acknowledged was lost", code="disk"
            ) from error
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise _corrupt(path, str(error)) from error
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            hint = "check the permissions and the mount of its directory"
            raise Unavailable(f"cannot write {path}: {error}", hint=hint, code="store") from error
        raise Unavailable(f"cannot use {path}: {error}", hint="run `paddock doctor`", code="store") from error


def _corrupt(path: str, detail: str) -> Unavailable:
    return Unavailable(
        f"the database {path} is damaged: {detail}",
        hint="run `paddock doctor --rebuild`: it keeps a copy and rebuilds from what is on disk",
        code="corrupt-store",
    )

"""The one database: which boxes and jobs exist. SQLite in WAL mode with full synchronisation: acknowledged is on disk.

A box's row is the truth about its existence: its directory is made before the row and removed after it, so a crash in
between leaves only a directory nobody names, which recovery clears away.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import codec
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec, BoxState, Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS boxes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, workspace TEXT NOT NULL,
    position INTEGER NOT NULL UNIQUE, spec TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    created_at TEXT NOT NULL, pid INTEGER, start_ticks INTEGER, boot_id TEXT) STRICT;
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT NOT NULL, box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE,
    argv TEXT NOT NULL, started_at TEXT NOT NULL, PRIMARY KEY (box, id)) STRICT;
"""


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
class Damage:
    """A row that cannot be read: kept, reported, never dropped silently."""

    id: str
    name: str
    problem: str


class Store:
    def __init__(self, path: str) -> None:
        self._path = path
        with _translated(path):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._check()
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version={SCHEMA}")
        os.chmod(path, 0o600)

    def __repr__(self) -> str:
        return f"<Store {self._path}>"

    def close(self) -> None:
        self._db.close()

    def _check(self) -> None:
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

    # -- boxes ---------------------------------------------------------------------------------------------------------

    def add(self, row: BoxRow) -> None:
        """Insert a new box; the caller has made sure that its name and position are free."""
        text = json.dumps(codec.to_wire(row.spec))
        with self._transaction():
            self._db.execute(
                "INSERT INTO boxes (id, name, agent, workspace, position, spec, state, reason, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, '', ?)",
                (
                    *(row.id, row.spec.name, row.spec.agent, row.spec.workspace, row.position),
                    *(text, row.state.value, row.created_at),
                ),
            )

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
            text = json.dumps(codec.to_wire(spec))
            self._db.execute("UPDATE boxes SET spec = ?, name = ? WHERE id = ?", (text, spec.name, row.id))
        return replace(row, spec=spec)

    def load(self) -> tuple[list[BoxRow], list[Damage]]:
        rows: list[BoxRow] = []
        damaged: list[Damage] = []
        query = (
            "SELECT id, name, position, spec, state, reason, created_at, pid, start_ticks, boot_id "
            "FROM boxes ORDER BY created_at, id"
        )
        with _translated(self._path):
            for values in self._db.execute(query):
                try:
                    rows.append(_row(values))
                except (PaddockError, ValueError, TypeError, KeyError) as error:
                    damaged.append(Damage(id=str(values[0]), name=str(values[1]), problem=str(error)))
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
        return [JobRow(id=job, argv=tuple(json.loads(argv)), started_at=at) for job, argv, at in found]

    def remove_job(self, box_id: str, job_id: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM jobs WHERE box = ? AND id = ?", (box_id, job_id))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translated(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def new_row(box_id: BoxId, spec: BoxSpec, taken: Collection[int]) -> BoxRow:
    """A box that is about to be, in the lowest free position."""
    position = next(n for n in range(len(taken) + 1) if n not in taken)
    return BoxRow(id=box_id, position=position, spec=spec, state=BoxState.CREATED, reason="", created_at=now())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def quarantine(path: str) -> str:
    """Move a damaged database aside, whole; returns its new name."""
    moved = f"{path}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, moved + suffix)
    return moved


def _row(values: tuple[object, ...]) -> BoxRow:
    box_id, _, position, spec, state, reason, created_at, pid, ticks, boot = values
    evidence = None
    if isinstance(pid, int) and isinstance(ticks, int) and isinstance(boot, str):
        evidence = Evidence(pid=pid, start_ticks=ticks, boot_id=boot)
    if not isinstance(position, int):
        msg = f"position is {position!r}"
        raise TypeError(msg)
    return BoxRow(
        id=BoxId(str(box_id)),
        position=position,
        spec=codec.from_wire(BoxSpec, json.loads(str(spec))),
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
        text = str(error)
        if "full" in text or "disk I/O" in text:
            raise Unavailable(
                f"cannot write {path}: {text}", hint="free some disk space; nothing acknowledged was lost", code="disk"
            ) from error
        if "malformed" in text or "not a database" in text or "corrupt" in text:
            raise _corrupt(path, text) from error
        raise Unavailable(f"cannot use {path}: {text}", hint="run `paddock doctor`", code="store") from error


def _corrupt(path: str, detail: str) -> Unavailable:
    return Unavailable(
        f"the database {path} is damaged: {detail}",
        hint="run `paddock doctor --rebuild`: it keeps a copy and rebuilds from what is on disk",
        code="corrupt-store",
    )

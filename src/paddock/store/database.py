"""The one database, as a file: SQLite in WAL mode with full synchronisation, so that acknowledged is on disk."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock.errors import Unavailable
from paddock.store.schema import SCHEMA, statements

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUFFIXES = ("", "-wal", "-shm")


class Database:
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
                for statement in statements(version):
                    self._db.execute(statement)
                self._learn(version)
                self._db.execute(f"PRAGMA user_version={SCHEMA}")

    def _learn(self, version: int) -> None:
        """Fill tables that a database of this version did not have."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

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

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes within are one: on disk together, with one wait for it."""
        with self._transaction():
            yield

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _translated(self._path):
            yield self._db

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


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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

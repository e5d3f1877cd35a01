"""The journalled commands of boxes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from paddock.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    id: str
    argv: tuple[str, ...]
    started_at: str


class Jobs(Database):
    def add_job(self, box_id: str, job: JobRow) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT INTO jobs (id, box, argv, started_at) VALUES (?, ?, ?, ?)",
                (job.id, box_id, json.dumps(job.argv), job.started_at),
            )

    def jobs(self, box_id: str) -> list[JobRow]:
        with self._reading() as db:
            found = db.execute(
                "SELECT id, argv, started_at FROM jobs WHERE box = ? ORDER BY started_at, rowid", (box_id,)
            ).fetchall()
        return [JobRow(id=job, argv=_words(argv), started_at=at) for job, argv, at in found]

    def job_ids(self) -> set[tuple[str, str]]:
        """(box, job) of every job."""
        with self._reading() as db:
            return {(box, job) for box, job in db.execute("SELECT box, id FROM jobs")}

    def remove_job(self, box_id: str, job_id: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM jobs WHERE box = ? AND id = ?", (box_id, job_id))


def _words(argv: str) -> tuple[str, ...]:
    try:
        return tuple(str(word) for word in json.loads(argv))
    except (ValueError, TypeError):
        return ("?",)  # only shown to people

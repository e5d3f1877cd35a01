"""Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.store import JobRow
from tests.store.rows import add, execute, spec

if TYPE_CHECKING:
    from paddock.store import Store


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


def test_a_damaged_job_is_shown_without_its_words(store: Store, path: str) -> None:
    add(store, "aa", spec())
    store.add_job("aa", JobRow(id="j0", argv=("true",), started_at="2026"))
    execute(path, "UPDATE jobs SET argv = '[['")
    assert [job.argv for job in store.jobs("aa")] == [("?",)]

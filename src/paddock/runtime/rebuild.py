"""Rebuilds a damaged database from the boxes on disk. Nothing is thrown away: the old file stays beside the new one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock import fs, store
from paddock.errors import PaddockError, Unavailable
from paddock.images.layers import Layers
from paddock.model import BoxId
from paddock.runtime import catalogue, records

if TYPE_CHECKING:
    from paddock.paths import Paths


def rebuild(where: Paths) -> list[str]:
    """Make a new database, one row per readable box directory; returns what was done, a line each."""
    fs.make_private_dir(where.state)
    lock = fs.FileLock(where.daemon_lock)
    if not lock.try_acquire():
        raise Unavailable("a daemon is running", hint="`paddock daemon stop` first; boxes keep running", code="daemon")
    try:
        had = store.exists(where.database)
        report = [f"kept the old database as {store.quarantine(where.database)}"] if had else []
        fresh = store.Store(where.database)
        try:
            with fresh.batch():
                report += _add_boxes(where, fresh)
                report += _add_templates(where, fresh)
        finally:
            fresh.close()
    finally:
        lock.release()
    return report or ["there was nothing to rebuild"]


def _add_boxes(where: Paths, fresh: store.Store) -> list[str]:
    report = []
    rows: list[store.BoxRow] = []
    for box_id in sorted(os.listdir(where.boxes)) if os.path.isdir(where.boxes) else []:
        try:
            names, positions = {row.spec.name for row in rows}, {row.position for row in rows}
            rows.append(records.read(where.boxes, BoxId(box_id), names, positions))
        except (OSError, ValueError, RecursionError, PaddockError) as error:
            report.append(f"box {box_id}: {error}; its files are now in {set_aside(where, box_id)}")
            continue
        records.restore(fresh, f"{where.boxes}/{box_id}", rows[-1])
        report.append(f"box {rows[-1].spec.name}: restored")
    return report


def _add_templates(where: Paths, fresh: store.Store) -> list[str]:
    report = []
    for row in catalogue.noted(where.templates, Layers(where.layers)) if os.path.exists(where.templates) else ():
        fresh.add_template(row, replacing=True)
        report.append(f"template {row.name}:{row.tag}: restored")
    return report


def set_aside(where: Paths, box_id: str) -> str:
    """Move the files of a box nobody can read out of the way, and keep them."""
    aside = f"{where.state}/unreadable-{box_id}"
    os.rename(f"{where.boxes}/{box_id}", aside)
    return aside

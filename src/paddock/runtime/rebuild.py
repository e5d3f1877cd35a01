"""Rebuilds a damaged database from the boxes on disk. Nothing is thrown away: the old file stays beside the new one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec
from paddock.store import Store, new_row, quarantine

if TYPE_CHECKING:
    from paddock.paths import Paths


def rebuild(where: Paths) -> list[str]:
    """Make a new database, one row per readable box directory; returns what was done, a line each."""
    fs.make_private_dir(where.state)
    lock = fs.FileLock(where.daemon_lock)
    if not lock.try_acquire():
        raise Unavailable("a daemon is running", hint="`paddock daemon stop` first; boxes keep running", code="daemon")
    try:
        report = [f"kept the old database as {quarantine(where.database)}"] if os.path.exists(where.database) else []
        store = Store(where.database)
        try:
            report += _add_boxes(where, store)
        finally:
            store.close()
    finally:
        lock.release()
    return report or ["there was nothing to rebuild"]


def _add_boxes(where: Paths, store: Store) -> list[str]:
    report = []
    for position, box_id in enumerate(sorted(os.listdir(where.boxes)) if os.path.isdir(where.boxes) else []):
        try:
            with open(f"{where.boxes}/{box_id}/spec.json", "rb") as file:
                spec = codec.from_wire(BoxSpec, json.loads(file.read()))
            store.add(new_row(BoxId(box_id), spec, range(position)))
        except (OSError, ValueError, PaddockError) as error:
            aside = f"{where.state}/unreadable-{box_id}"
            os.rename(f"{where.boxes}/{box_id}", aside)
            report.append(f"box {box_id}: {error}; its files are now in {aside}")
            continue
        report.append(f"box {spec.name}: restored")
    return report

"""Rows of boxes to put into a store, and readers of its file."""

from __future__ import annotations

import contextlib
import sqlite3

from paddock.model import BoxId, BoxSpec, Evidence, Limits, Mount
from paddock.store import BoxRow, Store, new_row

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


_BROUGHT = {
    2: ("checkpoint_layers", "restores", "checkpoints", "box_layers"),
    3: ("template_layers", "templates", "build_cache"),
}


def older(path: str, version: int) -> None:
    """Make a database one of an earlier schema."""
    for name in (name for since, names in _BROUGHT.items() if since > version for name in names):
        execute(path, f"DROP TABLE {name}")
    execute(path, f"PRAGMA user_version={version}")

"""A box's own record, beside its files: what its row says, so that the database can be lost and the box cannot."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxSpec, BoxState
from paddock.runtime.normalise import free_name
from paddock.store import BoxRow, CheckpointRow, JobRow, free_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from paddock.store import Store

FILE, CHECKPOINTS = "box.json", "checkpoints.json"
LOST_ARGV = ("?",)  # a job's command line is in the database alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    position: int
    created_at: str
    spec: BoxSpec


def add(store: Store, directory: str, row: BoxRow) -> None:
    """Enter a new box in the store and in its directory; both or neither."""
    store.insert(row)
    try:
        write(directory, row)
    except BaseException:
        store.remove(row.id)
        raise


def change(store: Store, directory: str, row: BoxRow, spec: BoxSpec) -> BoxRow:
    """Give a box another spec in both places."""
    write(directory, replace(row, spec=spec))
    try:
        return store.set_spec(row, spec)
    except BaseException:
        try:
            write(directory, row)
        except Unavailable:
            pass  # the row decides; the record is read only when the row is lost
        raise


def finish_checkpoint(store: Store, directory: str, row: BoxRow, spec: BoxSpec, checkpoint: str) -> BoxRow:
    """A checkpoint is whole, and the box stands on what it froze: both or neither."""
    with _as_it_was(directory, row), store.batch():
        store.finish_checkpoint(checkpoint)
        return change(store, directory, row, spec)


def begin_restore(store: Store, directory: str, row: BoxRow, spec: BoxSpec, checkpoint: str) -> BoxRow:
    """The box is to be as a checkpoint is; the same."""
    with _as_it_was(directory, row), store.batch():
        store.begin_restore(row.id, checkpoint)
        return change(store, directory, row, spec)


@contextlib.contextmanager
def _as_it_was(directory: str, row: BoxRow) -> Iterator[None]:
    """The record of a box whose row was not changed in the end."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Unavailable):  # the row decides; the record is read only when the row is lost
            write(directory, row)
        raise


def note_checkpoints(directory: str, rows: Collection[CheckpointRow]) -> None:
    """The box's own list, for the day on which the database is lost."""
    data = json.dumps([codec.to_wire(row) for row in rows], indent=1).encode() + b"\n"
    fs.write_atomic(f"{directory}/{CHECKPOINTS}", data)


def _checkpoints(directory: str) -> list[CheckpointRow]:
    try:
        with open(f"{directory}/{CHECKPOINTS}", "rb") as file:
            found = [codec.from_wire(CheckpointRow, item) for item in json.loads(file.read())]
    except (OSError, ValueError, TypeError, RecursionError, PaddockError):
        return []
    return [row for row in found if row.is_whole]


def kept_layers(directory: str) -> set[str]:
    """Of the checkpoints of the box's own list."""
    return {layer for row in _checkpoints(directory) for layer in row.layers}


def remake(directory: str, row: BoxRow) -> None:
    """Make the directory of a box that has never run and whose directory is gone."""
    os.mkdir(directory, 0o700)
    write(directory, row)


def read(boxes: str, box_id: BoxId, names: Collection[str], positions: Collection[int]) -> BoxRow:
    """The row a box would have by its own record; it keeps its name and position unless they are taken.

    OSError, ValueError or PaddockError if its record cannot be read.
    """
    directory = f"{boxes}/{box_id}"
    with open(f"{directory}/{FILE}", "rb") as file:
        record = codec.from_wire(Record, json.loads(file.read()))
    return BoxRow(
        id=box_id,
        position=free_position(positions) if record.position in positions else record.position,
        spec=replace(record.spec, name=free_name(record.spec.name, names)),
        state=BoxState.STOPPED if has_run(directory) else BoxState.CREATED,
        reason="",
        created_at=record.created_at,
    )


def restore(store: Store, directory: str, row: BoxRow) -> None:
    """Enter what `read` found in the store, with the jobs whose journals are there."""
    store.insert(row)
    for job in _jobs(directory):
        store.add_job(row.id, job)
    for checkpoint in _checkpoints(directory):
        store.add_checkpoint(replace(checkpoint, box=row.id))
    write(directory, row)


def has_run(directory: str) -> bool:
    """Whether files of the box's own may be in it: the engine makes its home when it first starts."""
    return not fs.is_missing(f"{directory}/home")


def _jobs(directory: str) -> list[JobRow]:
    try:
        with os.scandir(f"{directory}/journal") as entries:
            begun = {entry.name[:-2]: entry.stat().st_ctime for entry in entries if entry.name.endswith(".0")}
    except FileNotFoundError:
        return []
    moments = {job: datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for job, at in begun.items()}
    return [JobRow(id=job, argv=LOST_ARGV, started_at=moments[job]) for job in sorted(begun, key=begun.__getitem__)]


def write(directory: str, row: BoxRow) -> None:
    record = Record(position=row.position, created_at=row.created_at, spec=row.spec)
    data = json.dumps(codec.to_wire(record), indent=1).encode() + b"\n"
    if not row.spec.ephemeral:
        fs.write_atomic(f"{directory}/{FILE}", data)
        return
    # No power cut leaves a box around one command running, so its record need not survive one.
    try:
        with open(f"{directory}/{FILE}", "wb") as file:
            file.write(data)
    except OSError as error:
        raise Unavailable(
            f"cannot write {directory}/{FILE}: {error.strerror}", hint="free some disk space", code="disk"
        ) from error

"""Boxes, and the layers that their roots and homes are made of.

A box exists while it has both a row and a directory. The directory is made before the row and moved away before the
row goes, so a crash in between leaves an empty directory without a row (a box nobody was told of) or a row without a
directory (a removal nobody was told of); recovery finishes both. A directory with files in it and no row is neither:
the database lost it, and recovery takes the box back from its own record.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock import codec
from paddock.errors import PaddockError
from paddock.model import BoxId, BoxSpec, BoxState, Evidence
from paddock.store.database import Database, now

if TYPE_CHECKING:
    from collections.abc import Collection


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
class Damage:
    """A row that cannot be read: kept, reported, never dropped silently."""

    id: str
    name: str
    position: int
    problem: str


class Boxes(Database):
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
            if _chain(spec) != _chain(row.spec):
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
        with self._reading() as db:
            for values in db.execute(query):
                try:
                    rows.append(_row(values))
                except (PaddockError, ValueError, TypeError, KeyError) as error:
                    box_id, name, position = values[:3]
                    damaged.append(Damage(id=str(box_id), name=str(name), position=position, problem=str(error)))
        return rows, damaged

    def _note_layers(self, box_id: str, spec: BoxSpec) -> None:
        rows = [(box_id, position, layer) for position, layer in enumerate(_chain(spec))]
        self._db.executemany("INSERT INTO box_layers (box, position, layer) VALUES (?, ?, ?)", rows)

    def _learn(self, version: int) -> None:
        super()._learn(version)
        if version == 1:
            for row in self.load()[0]:
                self._note_layers(row.id, row.spec)


def _chain(spec: BoxSpec) -> tuple[str, ...]:
    return (*spec.layers, *spec.home_layers)


def new_row(box_id: BoxId, spec: BoxSpec, taken: Collection[int]) -> BoxRow:
    """A box that is about to be, in the lowest free position."""
    return BoxRow(
        id=box_id, position=free_position(taken), spec=spec, state=BoxState.CREATED, reason="", created_at=now()
    )


def free_position(taken: Collection[int]) -> int:
    return next(n for n in range(len(taken) + 1) if n not in taken)


def _packed(row: BoxRow, spec: BoxSpec) -> tuple[str, int]:
    """A spec as it is stored, with a sum: a bit that the disk turned must make neither another spec nor another box."""
    text = json.dumps(codec.to_wire(spec))
    return text, _sum(row.id, row.position, text)


def _sum(box_id: object, position: object, text: object) -> int:
    return zlib.crc32(f"{box_id} {position} {text}".encode())


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

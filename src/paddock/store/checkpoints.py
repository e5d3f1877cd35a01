"""Checkpoints of boxes, and restores that are under way."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.model import BoxId
from paddock.store.database import Database

_ROOT, _HOME, _STORAGE, _MEMORY = "root", "home", "storage", "memory"  # parts of a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """What a box was at a moment, by layers."""

    id: str
    box: BoxId
    name: str
    created_at: str
    home: tuple[str, ...]  # lowest first; what it had changed last
    root: tuple[str, ...] = ()  # of a container, the same
    storage: str = ""  # a copy of what else lay in its directory
    memory: str = ""  # what ran in it
    is_whole: bool = False  # not yet: it is being frozen

    @property
    def last(self) -> str:
        """The layer that is made last: when it is there, all of them are."""
        return self.home[-1]

    @property
    def layers(self) -> tuple[str, ...]:
        return (*self.root, *self.home, *filter(None, (self.storage, self.memory)))


class Checkpoints(Database):
    def add_checkpoint(self, row: CheckpointRow) -> None:
        single = {part: filter(None, (layer,)) for part, layer in ((_STORAGE, row.storage), (_MEMORY, row.memory))}
        chains = {**single, _ROOT: row.root, _HOME: row.home}
        parts = [(part, number, layer) for part, chain in chains.items() for number, layer in enumerate(chain)]
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

    def set_chain(self, checkpoint: str, part: str, was: tuple[str, ...], chain: tuple[str, ...]) -> None:
        """Of its root or home: other layers that are the same together. Nothing, if it went meanwhile, or is no longer
        what it was: then some of these may be gone."""
        with self._transaction():
            query = "SELECT layer FROM checkpoint_layers WHERE checkpoint = ? AND part = ? ORDER BY position"
            if tuple(layer for (layer,) in self._db.execute(query, (checkpoint, part))) != was:
                return
            self._db.execute("DELETE FROM checkpoint_layers WHERE checkpoint = ? AND part = ?", (checkpoint, part))
            self._db.executemany(
                "INSERT INTO checkpoint_layers (checkpoint, part, position, layer) VALUES (?, ?, ?, ?)",
                [(checkpoint, part, number, layer) for number, layer in enumerate(chain)],
            )

    def checkpoints(self) -> list[CheckpointRow]:
        """Of all boxes, oldest first."""
        chains: dict[tuple[str, str], list[str]] = {}
        with self._reading() as db:
            for checkpoint, part, layer in db.execute(
                "SELECT checkpoint, part, layer FROM checkpoint_layers ORDER BY checkpoint, part, position"
            ):
                chains.setdefault((checkpoint, part), []).append(layer)
            rows = db.execute(
                "SELECT id, box, name, created_at, is_whole FROM checkpoints ORDER BY created_at, rowid"
            ).fetchall()
        return [
            CheckpointRow(
                id=found,
                box=BoxId(box),
                name=name,
                created_at=at,
                home=tuple(chains[found, _HOME]),
                root=tuple(chains.get((found, _ROOT), ())),
                storage=chains.get((found, _STORAGE), [""])[0],
                memory=chains.get((found, _MEMORY), [""])[0],
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
        with self._reading() as db:
            return dict(db.execute("SELECT box, checkpoint FROM restores").fetchall())

"""Templates by name and tag, and the layers that steps of builds made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from paddock import codec
from paddock.errors import PaddockError, Unavailable
from paddock.model import ImageRun
from paddock.store.database import Database, now

_ROWS = "SELECT id, name, tag, config, image, source, digest, created_at FROM templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRow:
    name: str
    tag: str
    chain: tuple[str, ...]  # layers, lowest first
    config: str  # of the image, as JSON
    image: ImageRun = field(default_factory=ImageRun)  # how it is run; the chain is as its user's boxes see it
    source: str = ""  # a word: what it was made of
    digest: str = ""  # the sum of that
    created_at: str = ""


class Templates(Database):
    def add_template(self, row: TemplateRow, *, replacing: bool = False) -> None:
        """Unavailable if the name is taken, unless it may be replaced."""
        image = json.dumps(codec.to_wire(row.image))
        with self._transaction():
            if replacing:
                self.remove_template(row.name, row.tag)
            made = self._db.execute(
                "INSERT INTO templates (name, tag, config, image, source, digest, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row.name, row.tag, row.config, image, row.source, row.digest, row.created_at or now()),
            )
            rows = [(made.lastrowid, position, layer) for position, layer in enumerate(row.chain)]
            self._db.executemany("INSERT INTO template_layers (template, position, layer) VALUES (?, ?, ?)", rows)

    def remove_template(self, name: str, tag: str) -> bool:
        """Whether there was one."""
        with self._transaction():
            gone = self._db.execute("DELETE FROM templates WHERE name = ? AND tag = ?", (name, tag))
            return gone.rowcount > 0

    def template(self, name: str, tag: str) -> TemplateRow | None:
        with self._reading() as db:
            found = db.execute(f"{_ROWS} WHERE name = ? AND tag = ?", (name, tag)).fetchone()
        return None if found is None else self._template(found)

    def templates(self) -> list[TemplateRow]:
        """By name and tag; one whose row is damaged is left out, and its layers stay."""
        with self._reading() as db:
            found = db.execute(f"{_ROWS} ORDER BY name, tag").fetchall()
        rows = []
        for values in found:
            try:
                rows.append(self._template(values))
            except Unavailable:
                continue
        return rows

    def _template(self, values: tuple[object, ...]) -> TemplateRow:
        number, name, tag, config, image, source, digest, created_at = values
        with self._reading() as db:
            query = "SELECT layer FROM template_layers WHERE template = ? ORDER BY position"
            chain = tuple(layer for (layer,) in db.execute(query, (number,)))
        try:
            run = codec.from_wire(ImageRun, json.loads(str(image)))
        except (PaddockError, ValueError, TypeError) as error:
            hint = "build or load it again"
            raise Unavailable(f"the template {name}:{tag} is damaged: {error}", hint=hint, code="template") from error
        return TemplateRow(
            name=str(name),
            tag=str(tag),
            chain=chain,
            config=str(config),
            image=run,
            source=str(source),
            digest=str(digest),
            created_at=str(created_at),
        )

    # -- steps of builds -----------------------------------------------------------------------------------------------

    def cached(self, key: str) -> str | None:
        """The layer that a step of this key made; it is wanted, so it stays."""
        with self._transaction():
            self._db.execute("UPDATE build_cache SET used_at = ? WHERE key = ?", (now(), key))
            found = self._db.execute("SELECT layer FROM build_cache WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def cached_layers(self) -> set[str]:
        with self._reading() as db:
            return {str(layer) for (layer,) in db.execute("SELECT layer FROM build_cache")}

    def cache(self, key: str, layer: str) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO build_cache (key, layer, used_at) VALUES (?, ?, ?)", (key, layer, now())
            )

    def drop_cache(self, before: str) -> int:
        """Forget what was not used since that moment; returns how much that was."""
        with self._transaction():
            return self._db.execute("DELETE FROM build_cache WHERE used_at < ?", (before,)).rowcount

"""Templates by name: which there are, and what of them only the store knows.

A list of them lies beside the database, for the day on which that is lost (rebuild.py).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError, UserError
from paddock.images.layers import LayerId
from paddock.store import TemplateRow, now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.images.layers import Layers
    from paddock.model.reference import Reference
    from paddock.runtime.background import Background
    from paddock.store import Store

_LIST_BYTES = 1 << 26


class Catalogue:
    def __init__(self, store: Store, background: Background, path: str) -> None:
        self._store = store
        self._background = background
        self._path = path

    def __repr__(self) -> str:
        return f"<Catalogue {self._path}>"

    async def add(self, row: TemplateRow, *, replacing: bool = False, of: str = "") -> TemplateRow:
        """The caller holds a lease of its layers. UserError if the name is taken, unless it may be replaced.

        With `of` only a template of that source is.
        """
        (made,) = await self.add_all([row], replacing=replacing, of=of)
        return made

    async def add_all(self, rows: Sequence[TemplateRow], *, replacing: bool = False, of: str = "") -> list[TemplateRow]:
        """All of them or none."""
        at = now()
        made = [replace(row, created_at=row.created_at or at) for row in rows]
        await self._background.write(self._add, made, replacing, of)
        return made

    async def find(self, reference: Reference) -> TemplateRow:
        found = await self._background.write(self._store.template, reference.name, reference.tag)
        if found is None:
            raise missing(reference)
        return found

    async def has(self, reference: Reference) -> bool:
        return await self._background.write(self._store.template, reference.name, reference.tag) is not None

    async def listed(self) -> list[TemplateRow]:
        """By name and tag."""
        return await self._background.write(self._store.templates)

    async def remove(self, reference: Reference) -> None:
        """Boxes that were made of it keep what they stand on; what nobody stands on goes with the next prune."""
        await self._background.write(self._remove, reference)

    # -- steps of builds: asked for in threads -------------------------------------------------------------------------

    def step(self, key: str) -> LayerId | None:
        """The layer that a step of this key made, if a build of before left it."""
        found = self._background.ask(lambda: self._store.cached(key))
        return None if found is None else LayerId(found)

    def keep_step(self, key: str, layer: LayerId) -> None:
        self._background.ask(lambda: self._store.cache(key, layer))

    async def steps(self) -> set[str]:
        """Every layer that a step of a build made."""
        return await self._background.write(self._store.cached_layers)

    async def drop_steps(self, before: str) -> int:
        """Forget those that no build asked for since that moment."""
        return await self._background.write(self._store.drop_cache, before)

    # -- in the thread of the store ------------------------------------------------------------------------------------

    def _add(self, rows: Sequence[TemplateRow], replacing: bool, of: str) -> None:  # noqa: FBT001
        with self._store.batch():
            for row in rows:
                there = self._store.template(row.name, row.tag)
                if there is not None and (not replacing or (of and there.source != of)):
                    hint = f"choose another name with -t, or `paddock template rm {row.name}:{row.tag}` first"
                    raise UserError(f"there is a template {row.name}:{row.tag}", hint=hint, code="exists")
                self._store.add_template(row, replacing=replacing)
            self._note()

    def _remove(self, reference: Reference) -> None:
        with self._store.batch():
            if not self._store.remove_template(reference.name, reference.tag):
                raise missing(reference)
            self._note()

    def _note(self) -> None:
        data = json.dumps([codec.to_wire(row) for row in self._store.templates()], indent=1).encode() + b"\n"
        fs.write_atomic(self._path, data)


def missing(reference: Reference) -> UserError:
    hint = f"`paddock template ls` lists them; a file or directory is written ./{reference.name}"
    return UserError(f"there is no template {reference}", hint=hint, code="no-template")


def noted(path: str, layers: Layers) -> Iterator[TemplateRow]:
    """Those of the list whose layers are all there."""
    try:
        with open(path, "rb") as file:
            rows = json.loads(file.read(_LIST_BYTES))
    except (OSError, ValueError, RecursionError):
        return
    for item in rows if isinstance(rows, list) else []:
        try:
            row = codec.from_wire(TemplateRow, item)
            if all(layers.has(LayerId(layer)) for layer in row.chain):
                yield row
        except PaddockError:
            continue

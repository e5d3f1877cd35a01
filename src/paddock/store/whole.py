"""All of the store, and what only the whole of it can tell."""

from __future__ import annotations

from paddock.store.boxes import Boxes
from paddock.store.checkpoints import Checkpoints
from paddock.store.jobs import Jobs
from paddock.store.templates import Templates

_LAYERS = (
    "SELECT layer FROM box_layers UNION SELECT layer FROM checkpoint_layers "
    "UNION SELECT layer FROM template_layers UNION SELECT layer FROM build_cache"
)


class Store(Boxes, Jobs, Checkpoints, Templates):
    def layers(self) -> set[str]:
        """Every layer that something is made of, also one that is being frozen."""
        with self._reading() as db:
            return {layer for (layer,) in db.execute(_LAYERS)}

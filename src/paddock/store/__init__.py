"""The one database: which boxes, jobs, checkpoints and templates exist."""

from paddock.store.boxes import BoxRow, Damage, free_position, new_row
from paddock.store.checkpoints import CheckpointRow
from paddock.store.database import exists, now, quarantine
from paddock.store.jobs import JobRow
from paddock.store.schema import SCHEMA
from paddock.store.templates import TemplateRow
from paddock.store.whole import Store

__all__ = [
    "SCHEMA",
    "BoxRow",
    "CheckpointRow",
    "Damage",
    "JobRow",
    "Store",
    "TemplateRow",
    "exists",
    "free_position",
    "new_row",
    "now",
    "quarantine",
]

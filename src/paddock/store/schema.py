"""The tables, each with the version of the schema that brought it."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = 3
_BOXES: Final = (
    """
CREATE TABLE boxes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, workspace TEXT NOT NULL,
    position INTEGER NOT NULL UNIQUE, spec TEXT NOT NULL, spec_sum INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL,
    created_at TEXT NOT NULL, pid INTEGER, start_ticks INTEGER, boot_id TEXT) STRICT""",
    """
CREATE TABLE jobs (
    id TEXT NOT NULL, box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE,
    argv TEXT NOT NULL, started_at TEXT NOT NULL, PRIMARY KEY (box, id)) STRICT""",
)
# What these tables name is what Layers.prune leaves: the layers of a box also stand in its spec, but a spec may be
# damaged, and its layers must not go for that.
_LAYERS: Final = (
    """
CREATE TABLE box_layers (
    box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE, position INTEGER NOT NULL,
    layer TEXT NOT NULL, PRIMARY KEY (box, position)) STRICT""",
    """
CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY, box TEXT NOT NULL REFERENCES boxes(id) ON DELETE CASCADE, name TEXT NOT NULL,
    created_at TEXT NOT NULL, is_whole INTEGER NOT NULL, UNIQUE (box, name)) STRICT""",
    """
CREATE TABLE checkpoint_layers (
    checkpoint TEXT NOT NULL REFERENCES checkpoints(id) ON DELETE CASCADE, part TEXT NOT NULL,
    position INTEGER NOT NULL, layer TEXT NOT NULL, PRIMARY KEY (checkpoint, part, position)) STRICT""",
    """
CREATE TABLE restores (
    box TEXT PRIMARY KEY REFERENCES boxes(id) ON DELETE CASCADE,
    checkpoint TEXT NOT NULL REFERENCES checkpoints(id)) STRICT""",
)
_TEMPLATES: Final = (
    """
CREATE TABLE templates (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT NOT NULL, config TEXT NOT NULL, image TEXT NOT NULL,
    source TEXT NOT NULL, digest TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE (name, tag)) STRICT""",
    """
CREATE TABLE template_layers (
    template INTEGER NOT NULL REFERENCES templates(id) ON DELETE CASCADE, position INTEGER NOT NULL,
    layer TEXT NOT NULL, PRIMARY KEY (template, position)) STRICT""",
    """
CREATE TABLE build_cache (key TEXT PRIMARY KEY, layer TEXT NOT NULL, used_at TEXT NOT NULL) STRICT""",
)
_SINCE: Final = ((1, _BOXES), (2, _LAYERS), (3, _TEMPLATES))


def statements(version: int) -> tuple[str, ...]:
    """What makes a database of this version, 0 for an empty one, one of ours."""
    return tuple(statement for since, tables in _SINCE if since > version for statement in tables)

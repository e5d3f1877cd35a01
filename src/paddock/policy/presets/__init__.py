"""Named lists of hosts, as data: one TOML file each."""

from __future__ import annotations

from paddock.policy.presets.loader import Preset, find, names

__all__ = ["Preset", "find", "names"]

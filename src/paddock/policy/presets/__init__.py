"""Named lists of hosts, as data: one TOML file each."""

from __future__ import annotations

from paddock.policy.presets.loader import Preset, find, login, logins, names, of_agent

__all__ = ["Preset", "find", "login", "logins", "names", "of_agent"]

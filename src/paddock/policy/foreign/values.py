"""What reading or writing somebody else's policy file yields."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.policy.layering import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    statement: Statement
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    text: str
    notes: tuple[str, ...] = ()

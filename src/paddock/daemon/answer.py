"""What a verb of the daemon gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`items` may be long and are sent in several messages; descriptors travel with the last one."""

    result: object = None
    items: tuple[object, ...] | None = None
    fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The arguments of a verb that has none."""

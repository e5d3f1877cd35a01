"""What is known about how a review box sees its workspace: whether it is as it was, and why not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from paddock.fs.tree import Altered

_SHOWN = 3
_REASONS_MAX = 8
_KEPT = 1024


@dataclass(slots=True, kw_only=True)
class Sight:
    reasons: list[str] = field(default_factory=list)
    altered: dict[str, None] = field(default_factory=dict)  # on the host, by whoever
    more: bool = False  # beyond those
    ours: set[str] = field(default_factory=set)  # changed by an apply, whose reason names them
    is_due: bool = False  # it was told, and commands ran that may have seen what was before
    is_watched: bool = False  # whatever the host changes since the box looked is noticed
    stamp: tuple[int, ...] = ()  # of what is looked at where it is not
    has_told_foreign: bool = False  # that it has files which a review cannot change
    looking: asyncio.Task[None] | None = None

    def touched(self, why: str, places: Collection[str], *, more: bool) -> None:
        """An apply of ours changed these places."""
        reason = f"{why} to {_names(places, more=more)}" if places else why
        if reason not in self.reasons:
            self.reasons = [*self.reasons, reason][-_REASONS_MAX:]
        self.ours.update(list(places)[: _KEPT - len(self.ours)])

    def notice(self, found: Altered) -> None:
        for path in found.paths:
            if len(self.altered) < _KEPT:
                self.altered[path] = None
        self.more = self.more or found.more

    def take(self) -> str:
        """Why the box is stale; empty if it is not. What was told once is not told again."""
        reasons = self.reasons
        directories = {place.rpartition("/")[0] or "." for place in self.ours}
        altered = [path for path in self.altered if path not in self.ours and path not in directories]
        if altered or (self.more and not self.ours):
            reasons = [*reasons, f"the workspace changed on the host{_at(altered, more=self.more)}"]
        self.reasons, self.altered, self.more, self.ours = [], {}, False, set()
        return "; ".join(reasons)


def _at(paths: Collection[str], *, more: bool) -> str:
    return f" at {_names(paths, more=more)}" if paths else ""


def _names(paths: Iterable[str], *, more: bool) -> str:
    known = sorted(paths)
    shown = ", ".join(known[:_SHOWN])
    left = len(known) - _SHOWN
    if more:
        return f"{shown} and more"
    return f"{shown} and {left} more" if left > 0 else shown

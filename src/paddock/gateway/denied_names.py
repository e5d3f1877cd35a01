"""The names a box asked for and may not have: each recorded once in a while, however often it is asked for."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from paddock.gateway.records import Decided, Decision

if TYPE_CHECKING:
    from paddock.gateway.audit import Audit

_KEPT: Final = 256
_RECENT_S: Final = 5.0
_ONCE_IN_S: Final = 60.0


class DeniedNames:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._recorded: OrderedDict[str, float] = OrderedDict()
        self._last: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"<DeniedNames {len(self._recorded)}>"

    def add(self, name: str, now: float) -> None:
        self._last = name, now
        known = self._recorded.get(name)
        if known is not None and now - known < _ONCE_IN_S:
            return
        self._recorded[name] = now
        self._recorded.move_to_end(name)
        if len(self._recorded) > _KEPT:
            self._recorded.popitem(last=False)
        reason = "no rule allows this name at any port"
        self._audit.decision(Decided(protocol="dns", host=name, port=0, decision=Decision.DENY, reason=reason))

    def last(self, now: float) -> str:
        """The name that was denied last, if that was just now: a guess at who connects without saying a name."""
        if self._last is None or now - self._last[1] > _RECENT_S:
            return ""
        return self._last[0]

    def forget(self) -> None:
        """The policy changed: what is denied now is recorded anew."""
        self._recorded.clear()

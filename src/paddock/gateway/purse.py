"""One box's meter as the gateway holds it: what may still be spent, and who is told of what was.

The daemon hears of every request that was booked, and once a request is refused because nothing is left. A purse
outlives the document it came in and the door of its box: what was spent is not forgotten when a secret changes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from paddock.gateway.control import BoxUsage
from paddock.gateway.refusal import Refusal
from paddock.metering import apis
from paddock.metering.apis import Call
from paddock.metering.budget import Refused, Why
from paddock.metering.ledger import Ledger, Line
from paddock.metering.meter import Meter
from paddock.metering.prices import listed
from paddock.model import Budget
from paddock.policy.requests import is_disguised
from paddock.policy.urlpath import Ambiguous, readings
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.heads import Head, ResponseHead
    from paddock.metering.meter import Counted

    Tell = Callable[[BoxUsage], None]

_STATUS: Final = {Why.SPENT: 402, Why.BUSY: 429, Why.BLIND: 403}
_NO_WEBSOCKET: Final = 426  # at which Codex goes on over HTTPS; any other answer it takes for a server in trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a box's document says of it: what may be spent, and what was before."""

    budget: Budget = field(default_factory=Budget)
    lines: tuple[Line, ...] = ()
    seconds: float = 0.0  # that the box has run before


class Purse:
    """`clock` runs while the box does: there is a purse as long as the gateway has the box."""

    def __init__(
        self, box: str, name: str, spending: Spending, tell: Tell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._box, self._name = box, name
        self._tell = tell
        self._meter = Meter(
            spending.budget,
            listed(),
            ledger=Ledger(spending.lines),
            booked=self._booked,
            clock=clock,
            since=clock() - spending.seconds,
        )
        self._over = ""

    def __repr__(self) -> str:
        return f"<Purse of {self._name} {self._meter!r}>"

    def set_budget(self, budget: Budget) -> None:
        if budget != self._meter.account.budget:
            self._meter.account.budget = budget
            self._over = ""

    def usage(self) -> BoxUsage:
        return BoxUsage(id=self._box, lines=self._meter.ledger.lines(), seconds=self._meter.seconds, over=self._over)

    def request(self, host: str, head: Head) -> Counting | Refusal | None:
        """See gateway/meter.py."""
        if self._meter.account.budget != Budget() and is_disguised(head.fields):
            return self._refusal(Refused(why=Why.BLIND, reason="it asks the server to take it for another method"))
        path = self._path(host, head)
        if path is None:
            return self._refusal(Refused(why=Why.BLIND, reason="servers could read the path in two ways"))
        asked = self._meter.request(host, head.method, path, upgrade=head.websocket)
        if asked is None:
            return None
        if not isinstance(asked, Refused):
            return Counting(asked)
        refusal = self._refusal(asked)
        return replace(refusal, status=_NO_WEBSOCKET) if head.websocket and asked.why is Why.BLIND else refusal

    def _path(self, host: str, head: Head) -> str | None:
        """Of two readings the one that costs. None for a path that a server could read as another one, in a box with a
        budget: what looks free may not be."""
        path = head.path.partition("?")[0]
        try:
            read = readings(path)
        except Ambiguous:
            return path if self._meter.account.budget == Budget() else None
        owner = apis.provider(host)
        costly = (each for each in read if owner and apis.call(owner, head.method, each) is not Call.FREE)
        return next(costly, read[0])

    def _booked(self, _line: Line) -> None:
        self._tell(self.usage())

    def _refusal(self, refused: Refused) -> Refusal:
        if refused.why is Why.SPENT and not self._over:
            self._over = refused.reason
            self._tell(self.usage())
        text = f"paddock: not sent for box {neutralise(self._name)}: {refused.reason}\n"
        return Refusal(status=_STATUS[refused.why], reason=f"budget: {refused.reason}", text=text)


class Counting:
    """One request on its way, as the gateway tells of it."""

    __slots__ = ("_counted",)

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def __repr__(self) -> str:
        return f"<Counting {self._counted!r}>"

    def sent(self, data: bytes) -> None:
        self._counted.sent(data)

    def head(self, head: ResponseHead) -> None:
        fields = head.fields
        self._counted.head(head.status, fields.get("content-type", ""), fields.get("content-encoding", ""))

    def received(self, data: bytes) -> None:
        self._counted.received(data)

    def end(self, *, complete: bool) -> None:
        del complete  # an answer that was cut off is estimated from what came of it
        self._counted.end()

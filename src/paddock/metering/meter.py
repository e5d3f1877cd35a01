"""One box's meter: a request is asked for before it is sent, watched while it is answered, and booked when it ended.

Everything here is called with bytes as they pass and never raises for what they are. The gateway turns a refusal into
402 if the budget is spent, 429 if there will be room again, 403 if the request cannot be counted.
"""

from __future__ import annotations

import time

from paddock.metering import apis
from paddock.metering.apis import Call, Provider
from paddock.metering.budget import Account, Flight, Refused, Why
from paddock.metering.ledger import Ledger
from paddock.metering.usage import Reader, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.metering.ledger import Line
    from paddock.metering.prices import Prices
    from paddock.model import Budget

    Clock = Callable[[], float]
    Booked = Callable[[Line], None]

_GROW_BYTES = 64 * 1024  # of an answer, between two looks at what it costs so far


class Meter:
    """`ledger` has what was spent before, `since` is when the time of the budget began."""

    def __init__(
        self,
        budget: Budget,
        prices: Prices,
        *,
        ledger: Ledger | None = None,
        booked: Booked | None = None,
        clock: Clock = time.monotonic,
        since: float | None = None,
    ) -> None:
        self.ledger = ledger or Ledger()
        self.account = Account(budget, self.ledger.spent())
        self._prices = prices
        self._booked = booked
        self._clock = clock
        self._since = clock() if since is None else since

    @property
    def seconds(self) -> float:
        """How much time has passed of what the budget gives."""
        return self._clock() - self._since

    def __repr__(self) -> str:
        return f"<Meter {self.account!r}>"

    def request(self, host: str, method: str, path: str, *, upgrade: bool = False) -> Counted | Refused | None:
        """How a request is counted, why it is not sent, or None if it costs nothing."""
        owner = apis.provider(host)
        kind = Call.FREE if owner is None else apis.call(owner, method, path, upgrade=upgrade)
        if owner is None or kind is Call.FREE:
            return None
        if kind is Call.BLIND and self.account.budget.needs_usage:
            reason = f"{path.rpartition('/')[2] or host} does not tell what it costs, and this box has a budget"
            return Refused(why=Why.BLIND, reason=reason)
        flight = self.account.admit(self.seconds)
        return flight if isinstance(flight, Refused) else Counted(self, owner, flight, path, told=kind is Call.MODEL)

    def watch(self, owner: Provider, flight: Flight, usage: Usage) -> None:
        self.account.grow(flight, self._prices.cost(owner, usage).picodollars, usage.tokens)

    def book(self, owner: Provider, flight: Flight, usage: Usage) -> None:
        cost = self._prices.cost(owner, usage)
        self.account.settle(flight, cost.picodollars, usage.tokens)
        line = self.ledger.add(owner, usage, cost)
        if self._booked:
            self._booked(line)


class Counted:
    """One request on its way."""

    def __init__(self, meter: Meter, owner: Provider, flight: Flight, path: str, *, told: bool) -> None:
        self._meter = meter
        self._owner = owner
        self._flight = flight
        self._model = apis.model_in(path)
        self._told = told
        self._sent_bytes = 0
        self._since = meter.seconds
        self._unwatched_bytes = 0
        self._reader: Reader | None = None
        self._free = not told
        self._ended = False

    def __repr__(self) -> str:
        return f"<Counted {self._owner.value} {'ended' if self._ended else 'in flight'}>"

    def sent(self, data: bytes) -> None:
        """Bytes of the request's body."""
        self._sent_bytes += len(data)

    def head(self, status: int, content_type: str = "", encoding: str = "") -> None:
        """The answer's head: what failed costs nothing."""
        self._free = not self._told or not 200 <= status < 300
        self._reader = None if self._free else Reader(content_type, encoding, self._model)

    def received(self, data: bytes) -> None:
        """Bytes of the answer's body, without their chunking."""
        if self._reader is None:
            return
        self._reader.feed(data)
        self._unwatched_bytes += len(data)
        if self._unwatched_bytes >= _GROW_BYTES:
            self._unwatched_bytes = 0
            self._meter.watch(self._owner, self._flight, self._usage())

    def end(self) -> None:
        """Whatever became of the request; once."""
        if not self._ended:
            self._ended = True
            self._meter.book(self._owner, self._flight, self._usage())

    def _usage(self) -> Usage:
        if self._free:
            return Usage(model=self._model)
        reader = self._reader or Reader(model=self._model)  # no head came: the provider may have begun all the same
        return reader.so_far(self._sent_bytes, self._meter.seconds - self._since)

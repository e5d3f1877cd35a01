"""How much a box may spend, and whether one more request may be sent.

Theory. What a request costs is known when it has ended, so requests in flight are reserved at the cost of the dearest
one so far. One more is sent if what is spent, what is reserved and its own reservation fit; or if nothing is in flight
and the budget is not spent. So a budget is overshot by one request at most, as long as none costs more than the
dearest before it. A box could begin with cheap ones, so each holds a part of what is left at least, and no more than
METER_FLIGHTS_MAX fly; before any has cost something nothing is known, and METER_FIRST_FLIGHTS_MAX may. These may
overshoot by what they cost. A request that finds no room while others fly may come again; one that finds the budget
spent may not.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from paddock.errors import UserError
from paddock.limits import METER_FIRST_FLIGHTS_MAX, METER_FLIGHTS_MAX
from paddock.metering.prices import PICODOLLARS
from paddock.text import duration, neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.model import Budget

_COUNT = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,3}))?([kKmMgG]?)")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_DOLLARS = re.compile(r"\$?([0-9]{1,7})(?:\.([0-9]{1,6}))?")
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    picodollars: int = 0
    tokens: int = 0
    requests: int = 0

    def plus(self, picodollars: int, tokens: int, requests: int = 0) -> Spent:
        return Spent(
            picodollars=self.picodollars + picodollars,
            tokens=self.tokens + tokens,
            requests=self.requests + requests,
        )


def over(budget: Budget, spent: Spent, elapsed_s: float = 0.0) -> str:
    """Why nothing more may be sent, for people; empty while it may."""
    if budget.picodollars is not None and spent.picodollars >= budget.picodollars:
        return f"the budget of {dollars(budget.picodollars)} is spent ({dollars(spent.picodollars)})"
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        return f"the budget of {budget.tokens} tokens is spent ({spent.tokens})"
    if budget.requests is not None and spent.requests >= budget.requests:
        return f"the budget of {budget.requests} requests is spent"
    if budget.seconds is not None and elapsed_s >= budget.seconds:
        return f"the budget of {duration(budget.seconds)} is over"
    return ""


class Why(enum.Enum):
    SPENT = "spent"  # nothing more will be sent
    BUSY = "busy"  # there is room again when a request in flight has ended
    BLIND = "blind"  # this one does not tell what it costs; others may be sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    why: Why
    reason: str


class Flight:
    """A request that was sent and has not ended; it holds a part of the budget."""

    __slots__ = ("picodollars", "tokens")

    def __init__(self, picodollars: int, tokens: int) -> None:
        self.picodollars = picodollars
        self.tokens = tokens

    def __repr__(self) -> str:
        return f"<Flight {dollars(self.picodollars)} {self.tokens} tokens>"


class Account:
    """One budget: what is spent of it, what is reserved, and what requests have cost at most."""

    def __init__(self, budget: Budget, spent: Spent | None = None) -> None:
        self.budget = budget
        self.spent = spent or Spent()
        self._flights: set[Flight] = set()
        self._dearest: Flight | None = None

    def __repr__(self) -> str:
        return f"<Account {dollars(self.spent.picodollars)} spent, {len(self._flights)} in flight>"

    def admit(self, elapsed_s: float = 0.0) -> Flight | Refused:
        """Before a request is sent. It counts as a request from now on, whatever becomes of it."""
        if reason := over(self.budget, self.spent, elapsed_s):
            return Refused(why=Why.SPENT, reason=reason)
        flight = self._reservation()
        if self._flights and not self._has_room(flight):
            return Refused(why=Why.BUSY, reason="requests in flight may spend what is left of the budget")
        self.spent = self.spent.plus(0, 0, requests=1)
        self._flights.add(flight)
        return flight

    def grow(self, flight: Flight, picodollars: int, tokens: int) -> None:
        """What a request in flight has cost until now, if that is more than what it holds."""
        flight.picodollars = max(flight.picodollars, picodollars)
        flight.tokens = max(flight.tokens, tokens)

    def settle(self, flight: Flight, picodollars: int, tokens: int) -> None:
        """A request ended; a second time changes nothing."""
        if flight not in self._flights:
            return
        self._flights.remove(flight)
        self.spent = self.spent.plus(picodollars, tokens)
        known = self._dearest or Flight(0, 0)
        if picodollars or tokens:  # what failed tells nothing about what others cost
            self._dearest = Flight(max(known.picodollars, picodollars), max(known.tokens, tokens))

    def _reservation(self) -> Flight:
        known, parts = self._dearest, METER_FLIGHTS_MAX
        if known is None:
            known, parts = Flight(0, 0), METER_FIRST_FLIGHTS_MAX
        return Flight(
            max(known.picodollars, _part(self.budget.picodollars, self.spent.picodollars, parts)),
            max(known.tokens, _part(self.budget.tokens, self.spent.tokens, parts)),
        )

    def _has_room(self, flight: Flight) -> bool:
        flying = [*self._flights, flight]
        cost = self.spent.picodollars + sum(each.picodollars for each in flying)
        tokens = self.spent.tokens + sum(each.tokens for each in flying)
        limits = self.budget
        return (limits.picodollars is None or cost <= limits.picodollars) and (
            limits.tokens is None or tokens <= limits.tokens
        )


def _part(limit: int | None, spent: int, parts: int) -> int:
    """Of what is left; never nothing, or any number would fit."""
    return max((limit - spent) // parts, 1) if limit is not None else 0


def dollars(picodollars: int) -> str:
    """For people: cents, and more where cents would say nothing."""
    value = picodollars / PICODOLLARS
    return f"${value:.2f}" if value >= 1 or not picodollars else f"${value:.4f}"


def parse_dollars(text: str) -> int:
    """Picodollars of `5`, `$5` or `0.01`; raises UserError `bad-cost`."""
    match = _DOLLARS.fullmatch(text)
    if match is None:
        shown = neutralise(text, _SHOWN_CHARS)
        raise UserError(f"'{shown}' is not an amount", hint="use dollars: 5, 0.50", code="bad-cost")
    return int(match[1]) * PICODOLLARS + int((match[2] or "").ljust(12, "0"))


def parse_count(text: str) -> int:
    """Of `500`, `200k` or `1.5M`; raises UserError `bad-count`."""
    match = _COUNT.fullmatch(text)
    if match is None or (match[2] and not match[3]):
        shown = neutralise(text, _SHOWN_CHARS)
        raise UserError(f"'{shown}' is not a number", hint="use a number or a unit: 500, 200k, 2M", code="bad-count")
    unit = _UNITS[match[3].lower()]
    return int(match[1]) * unit + int((match[2] or "").ljust(3, "0")) * unit // 1000

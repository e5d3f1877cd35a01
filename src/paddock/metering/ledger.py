"""What a box used, by provider and model: small enough to be sent after every request, and read back by the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from paddock.limits import METER_MODELS_MAX
from paddock.metering.budget import Spent
from paddock.model import Budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.metering.apis import Provider
    from paddock.metering.prices import Cost
    from paddock.metering.usage import Usage

REST = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One model's totals."""

    provider: str
    model: str  # empty if no answer named it
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    picodollars: int = 0
    estimated: int = 0  # requests of which the answer did not tell everything
    unlisted: int = 0  # requests at the dearest price, because the model is in no list

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one box spent in its life, as it is kept and shown."""

    box: str
    name: str
    budget: Budget = field(default_factory=Budget)
    lines: tuple[Line, ...] = ()
    seconds: float = 0.0  # that it ran while this was counted
    over: str = ""  # why nothing more is sent
    changed: str = ""  # UTC, ISO 8601


class Ledger:
    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._lines = {(line.provider, line.model): line for line in lines}

    def __repr__(self) -> str:
        return f"<Ledger {len(self._lines)} models>"

    def lines(self) -> tuple[Line, ...]:
        return tuple(self._lines.values())

    def spent(self) -> Spent:
        total = Spent()
        for line in self._lines.values():
            total = total.plus(line.picodollars, line.tokens, line.requests)
        return total

    def add(self, owner: Provider, usage: Usage, cost: Cost) -> Line:
        """The model's line with this request in it."""
        key = owner.value, usage.model
        if key not in self._lines and len(self._lines) >= METER_MODELS_MAX:
            key = owner.value, REST
        line = self._lines.get(key) or Line(provider=key[0], model=key[1])
        used = usage.tokens > 0
        line = replace(
            line,
            requests=line.requests + 1,
            input=line.input + usage.input,
            output=line.output + usage.output,
            cache_read=line.cache_read + usage.cache_read,
            cache_write=line.cache_write + usage.cache_write + usage.cache_write_long,
            picodollars=line.picodollars + cost.picodollars,
            estimated=line.estimated + usage.estimated,
            unlisted=line.unlisted + (used and not cost.known),
        )
        self._lines[key] = line
        return line

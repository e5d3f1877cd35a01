"""What tokens cost: a dated list, in whole picodollars a token, so that sums are exact.

A dollar per million tokens is a million picodollars per token. A model that is not in the list costs as the dearest of
its provider at every count: a budget must not be got round by the name of a new model.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from decimal import Decimal

from paddock.metering.apis import Provider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping

    from paddock.metering.usage import Usage

PICODOLLARS = 10**12  # of a dollar
_PER_TOKEN = 10**6  # picodollars a token, of a dollar a million
_KINDS = ("input", "output", "cache_read", "cache_write", "cache_write_long")
_EDITION = re.compile(
    r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{3,4}|latest|preview|exp|beta|default))*"
)
_FILE = os.path.join(os.path.dirname(__file__), "prices.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Picodollars a token. Caches cost as plain input where nothing else is said."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_long: int

    def of(self, usage: Usage) -> int:
        return sum(getattr(self, kind) * getattr(usage, kind) for kind in _KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    match: str  # a name, and `:fast` or `:priority` where that costs more
    price: Price
    over: int = 0  # tokens of a prompt above which `long` holds; 0 for never
    long: Price | None = None

    def fits(self, name: str) -> bool:
        """Its name alone, or with a date: another word may be another model, at another price."""
        base, _, variant = self.match.partition(":")
        name, _, asked = name.partition(":")
        return variant == asked and name.startswith(base) and bool(_EDITION.fullmatch(name, len(base)))

    def cost(self, usage: Usage) -> int:
        return (self.long if self.long and usage.prompt > self.over else self.price).of(usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    picodollars: int
    known: bool  # whether the model is in the list


class Prices:
    def __init__(self, models: Mapping[Provider, tuple[Model, ...]], dates: Mapping[Provider, dt.date]) -> None:
        everyone = tuple(model for listed in models.values() for model in listed)
        self._models = {**models, Provider.OTHER: everyone}
        self._dearest = {owner: _dearest(listed) for owner, listed in self._models.items()}
        self._dearest_plain = {owner: _dearest(filter(_is_plain, listed)) for owner, listed in self._models.items()}
        self.dates = dict(dates)

    def __repr__(self) -> str:
        return f"<Prices of {min(self.dates.values())}>"

    def cost(self, owner: Provider, usage: Usage) -> Cost:
        name = usage.model.lower()
        if owner is Provider.OTHER:  # anthropic/claude-sonnet-4.6 elsewhere is claude-sonnet-4-6 at home
            name = name.rpartition("/")[2]
            name = name.replace(".", "-") if name.startswith("claude-") else name
        costs = [model.cost(usage) for model in self._models[owner] if model.fits(name)]
        if not costs:
            dearest = self._dearest if ":" in name else self._dearest_plain
            return Cost(picodollars=dearest[owner].of(usage), known=False)
        return Cost(picodollars=max(costs), known=True)


@functools.cache
def listed() -> Prices:
    """Our own list."""
    import tomllib

    with open(_FILE, "rb") as file:
        data = tomllib.load(file, parse_float=Decimal)
    owners = {Provider(name): table for name, table in data.items()}
    return Prices(
        {owner: tuple(map(_model, table["models"])) for owner, table in owners.items()},
        {owner: table["date"] for owner, table in owners.items()},
    )


def _model(entry: dict[str, object]) -> Model:
    if unknown := set(entry) - {"match", "over", "long", *_KINDS}:
        raise ValueError(f"unknown key {min(unknown)!r} in the price list")
    match, over, long = entry["match"], entry.get("over", 0), entry.get("long")
    if not isinstance(match, str) or not match or not isinstance(over, int):
        raise TypeError("a model of the price list has a name")
    return Model(match=match, price=_price(entry), over=over, long=_price(long) if isinstance(long, dict) else None)


def _price(entry: Mapping[str, object]) -> Price:
    given = {kind: _picodollars(entry[kind]) for kind in _KINDS if kind in entry}
    plain = given["input"]
    write = given.get("cache_write", plain)
    return Price(
        input=plain,
        output=given["output"],
        cache_read=given.get("cache_read", plain),
        cache_write=write,
        cache_write_long=given.get("cache_write_long", write),
    )


def _picodollars(dollars: object) -> int:
    if not isinstance(dollars, (int, Decimal)) or dollars < 0:
        raise TypeError("a price is a number of dollars")
    return int(dollars * _PER_TOKEN)


def _is_plain(model: Model) -> bool:
    return ":" not in model.match


def _dearest(models: Iterable[Model]) -> Price:
    prices = [price for model in models for price in (model.price, model.long) if price]
    return Price(**{kind: max(getattr(price, kind) for price in prices) for kind in _KINDS})

"""The ledger adds up, and stays small whatever models a box asks for."""

from __future__ import annotations

import json

from paddock import codec
from paddock.limits import METER_MODELS_MAX
from paddock.metering.apis import Provider
from paddock.metering.budget import Spent
from paddock.metering.ledger import REST, Ledger, Line
from paddock.metering.prices import Cost
from paddock.metering.usage import Usage

USAGE = Usage(model="m", input=1, output=2, cache_read=3, cache_write=4, cache_write_long=5)


def test_requests_of_a_model_add_up() -> None:
    ledger = Ledger()
    ledger.add(Provider.OPENAI, USAGE, Cost(picodollars=7, known=True))
    line = ledger.add(Provider.OPENAI, Usage(model="m", output=1, estimated=True), Cost(picodollars=1, known=False))
    assert line == Line(
        provider="openai",
        model="m",
        requests=2,
        input=1,
        output=3,
        cache_read=3,
        cache_write=9,
        picodollars=8,
        estimated=1,
        unlisted=1,
    )
    ledger.add(Provider.GOOGLE, USAGE, Cost(picodollars=7, known=True))
    assert [(each.provider, each.requests) for each in ledger.lines()] == [("openai", 2), ("google", 1)]
    assert ledger.spent() == Spent(picodollars=15, tokens=31, requests=3)


def test_a_request_without_tokens_is_at_no_price() -> None:
    assert Ledger().add(Provider.OPENAI, Usage(), Cost(picodollars=0, known=False)).unlisted == 0


def test_it_is_read_back_as_it_was_sent() -> None:
    ledger = Ledger()
    ledger.add(Provider.OPENAI, USAGE, Cost(picodollars=7, known=True))
    wire = json.loads(json.dumps([codec.to_wire(line) for line in ledger.lines()]))
    assert Ledger(codec.from_wire(Line, item) for item in wire).lines() == ledger.lines()


def test_it_stays_small_and_loses_nothing() -> None:
    ledger = Ledger()
    for number in range(10 * METER_MODELS_MAX):
        ledger.add(Provider.OTHER, Usage(model=f"m{number}", input=1), Cost(picodollars=1, known=False))
    assert len(ledger.lines()) == METER_MODELS_MAX + 1
    assert ledger.lines()[-1].model == REST
    assert ledger.spent().tokens == 10 * METER_MODELS_MAX

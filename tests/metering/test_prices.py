"""Prices are exact, dated, and never too low for a name that is not in the list."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from decimal import Decimal

import pytest

from paddock.metering import prices
from paddock.metering.apis import Provider
from paddock.metering.prices import PICODOLLARS, Price, listed
from paddock.metering.usage import Usage

MILLION = 1_000_000
LISTED = [(owner, model) for owner in listed().dates for model in listed()._models[owner]]


def cost(owner: Provider, model: str, **tokens: int) -> Decimal:
    return Decimal(listed().cost(owner, Usage(model=model, **tokens)).picodollars) / PICODOLLARS  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "model", "tokens", "dollars"),
    [
        (Provider.ANTHROPIC, "claude-opus-4-7", {"input": MILLION}, "5"),
        (Provider.ANTHROPIC, "claude-opus-4-7-20260301", {"output": MILLION}, "25"),
        (Provider.ANTHROPIC, "claude-opus-4-1-20250805", {"input": MILLION}, "15"),
        (Provider.ANTHROPIC, "claude-opus-4-20250514", {"input": MILLION}, "15"),
        (Provider.ANTHROPIC, "claude-haiku-4-5", {"cache_read": 3}, "0.0000003"),
        (Provider.ANTHROPIC, "claude-sonnet-4-6", {"cache_write": MILLION, "cache_write_long": MILLION}, "9.75"),
        (Provider.ANTHROPIC, "claude-sonnet-4-5-20250929", {"input": 200_000}, "0.6"),
        (
            Provider.ANTHROPIC,
            "claude-sonnet-4-5-20250929",
            {"input": 1, "cache_read": 200_000, "output": 2},
            "0.120051",
        ),
        (Provider.OPENAI, "gpt-5-2025-08-07", {"input": MILLION, "cache_read": MILLION}, "1.375"),
        (Provider.OPENAI, "gpt-5-mini", {"output": MILLION}, "2"),
        (Provider.OPENAI, "GPT-5.4-Mini", {"output": MILLION}, "4.5"),
        (Provider.GOOGLE, "gemini-2.5-pro", {"input": 200_001}, "0.5000025"),
        (Provider.GOOGLE, "gemini-2.5-flash-preview-09-2025", {"input": MILLION}, "0.3"),
        (Provider.ANTHROPIC, "claude-opus-4-6-20260201:fast", {"input": MILLION}, "30"),
        (Provider.OPENAI, "gpt-5.5-2026-04-23:priority", {"input": MILLION}, "12.5"),
        (Provider.OTHER, "anthropic/claude-sonnet-4.6", {"input": MILLION}, "3"),
        (Provider.OTHER, "openai/gpt-5-mini", {"input": MILLION}, "0.25"),
    ],
)
def test_tokens_cost_what_the_list_says(owner: Provider, model: str, tokens: dict[str, int], dollars: str) -> None:
    assert cost(owner, model, **tokens) == Decimal(dollars)
    assert listed().cost(owner, Usage(model=model)).known


@pytest.mark.parametrize(
    ("owner", "model"),
    [
        (Provider.ANTHROPIC, ""),
        (Provider.ANTHROPIC, "claude-opus-9"),
        (Provider.ANTHROPIC, "gpt-5-mini"),
        (Provider.ANTHROPIC, "claude-haiku-4-5:fast"),
        (Provider.OPENAI, "gpt-5-mini:priority"),
        (Provider.ANTHROPIC, "claude-haiku-4-5-ultra"),
        (Provider.OPENAI, "gpt-5.9"),
        (Provider.OPENAI, "gpt-5-nano-xxl"),
        (Provider.GOOGLE, "gemini-9-pro"),
        (Provider.OTHER, "somebody/llama"),
    ],
)
@pytest.mark.parametrize("kind", [field.name for field in fields(Price)])
def test_an_unknown_model_costs_as_the_dearest_and_is_marked(owner: Provider, model: str, kind: str) -> None:
    unknown = listed().cost(owner, Usage(model=model, **{kind: MILLION}))  # type: ignore[arg-type]
    assert not unknown.known
    for other, known in LISTED:
        if owner in {other, Provider.OTHER} and (":" in model or ":" not in known.match):
            for price in (known.price, known.long or known.price):
                assert unknown.picodollars >= getattr(price, kind) * MILLION


@pytest.mark.parametrize(("owner", "model"), LISTED, ids=[model.match for _, model in LISTED])
def test_every_entry_makes_sense(owner: Provider, model: prices.Model) -> None:
    assert model.match == model.match.lower()
    assert 0 < model.price.cache_read <= model.price.input <= model.price.cache_write <= model.price.cache_write_long
    assert model.price.output == 0 or model.price.output >= model.price.input
    assert (model.over > 0) == (model.long is not None)
    if model.long:
        assert model.long.input > model.price.input
    assert sum(other.fits(model.match) for listed_by, other in LISTED if listed_by is owner) == 1


def test_the_list_has_a_date_for_every_provider() -> None:
    assert set(listed().dates) == {Provider.ANTHROPIC, Provider.OPENAI, Provider.GOOGLE}
    assert all(isinstance(date, dt.date) for date in listed().dates.values())


@pytest.mark.parametrize(
    "entry",
    [
        {"match": "m", "input": 1, "output": 1, "ouptut": 2},
        {"match": "", "input": 1, "output": 1},
        {"match": "m", "input": "1", "output": 1},
    ],
)
def test_a_wrong_entry_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        prices._model(entry)

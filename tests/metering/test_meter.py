"""A box's meter: asked before, watching during, booking after; whatever becomes of a request."""

from __future__ import annotations

import json

import pytest

from paddock.metering.budget import Refused, Why, parse_dollars
from paddock.metering.ledger import Ledger, Line
from paddock.metering.meter import Counted, Meter
from paddock.metering.prices import listed
from paddock.model import Budget

HOST, PATH = "api.anthropic.com", "/v1/messages"
ANSWER = json.dumps({"model": "claude-haiku-4-5", "usage": {"input_tokens": 1000, "output_tokens": 1000}}).encode()
COST = parse_dollars("0.006")


def meter(budget: Budget | None = None, **given: object) -> Meter:
    return Meter(budget or Budget(), listed(), **given)  # type: ignore[arg-type]


def counted(asked: Counted | Refused | None) -> Counted:
    assert isinstance(asked, Counted)
    return asked


def answered(box: Meter, body: bytes = ANSWER, status: int = 200) -> None:
    request = counted(box.request(HOST, "POST", PATH))
    request.sent(b"x" * 400)
    request.head(status, "application/json")
    request.received(body)
    request.end()


def test_an_answer_is_booked_and_told() -> None:
    told: list[Line] = []
    box = meter(booked=told.append)
    answered(box)
    assert told == list(box.ledger.lines())
    [line] = told
    assert (line.model, line.requests, line.input, line.output, line.picodollars) == (
        "claude-haiku-4-5",
        1,
        1000,
        1000,
        COST,
    )
    assert box.account.spent.picodollars == COST


@pytest.mark.parametrize(
    ("host", "method", "path"),
    [("example.com", "POST", PATH), (HOST, "GET", "/v1/models"), (HOST, "POST", "/v1/messages/count_tokens")],
)
def test_what_is_free_is_let_be_also_when_the_budget_is_spent(host: str, method: str, path: str) -> None:
    assert meter(Budget(picodollars=0)).request(host, method, path) is None


def test_a_budget_stops_the_next_request_and_says_why() -> None:
    box = meter(Budget(picodollars=parse_dollars("0.01")))
    answered(box)
    answered(box)
    refused = box.request(HOST, "POST", PATH)
    assert refused == Refused(why=Why.SPENT, reason="the budget of $0.0100 is spent ($0.0120)")


def test_what_was_spent_before_counts() -> None:
    before = meter()
    answered(before)
    box = meter(Budget(picodollars=COST), ledger=Ledger(before.ledger.lines()))
    assert isinstance(box.request(HOST, "POST", PATH), Refused)


def test_time_is_a_budget_too() -> None:
    now = [100.0]
    box = meter(Budget(seconds=60.0), clock=lambda: now[0])
    counted(box.request(HOST, "POST", PATH))
    now[0] = 160.0
    refused = box.request(HOST, "POST", PATH)
    assert isinstance(refused, Refused)
    assert refused.why is Why.SPENT
    assert isinstance(meter(Budget(seconds=60.0), clock=lambda: 160.0, since=0.0).request(HOST, "POST", PATH), Refused)


@pytest.mark.parametrize("limit", [Budget(picodollars=10**15), Budget(tokens=10**9)])
def test_what_does_not_tell_its_cost_is_refused_under_a_budget(limit: Budget) -> None:
    box = meter(limit)
    for asked in (box.request(HOST, "POST", "/v1/messages/batches"), box.request(HOST, "GET", PATH, upgrade=True)):
        assert isinstance(asked, Refused)
        assert asked.why is Why.BLIND
    assert isinstance(box.request(HOST, "POST", PATH), Counted)


def test_without_a_budget_it_is_counted_as_a_request() -> None:
    box = meter(Budget(requests=1))
    request = counted(box.request(HOST, "POST", "/v1/messages/batches"))
    request.head(200, "application/json")
    request.received(ANSWER)
    request.end()
    assert (box.account.spent.requests, box.account.spent.tokens) == (1, 0)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529, 302])
def test_what_failed_costs_a_request_and_nothing_else(status: int) -> None:
    box = meter()
    answered(box, status=status)
    assert (box.account.spent.requests, box.account.spent.picodollars) == (1, 0)


def test_an_answer_that_was_cut_is_estimated() -> None:
    box = meter()
    answered(box, ANSWER[:-30])
    [line] = box.ledger.lines()
    assert line.estimated == 1
    assert line.input >= 100


def test_a_request_whose_answer_never_came_costs_what_was_sent() -> None:
    box = meter()
    request = counted(box.request(HOST, "POST", PATH))
    request.sent(b"x" * 400)
    request.end()
    [line] = box.ledger.lines()
    assert (line.input, line.output, line.estimated) == (100, 0, 1)


def test_a_request_ends_once() -> None:
    box = meter()
    request = counted(box.request(HOST, "POST", PATH))
    request.end()
    request.end()
    assert box.ledger.spent().requests == 1


def test_a_long_stream_is_seen_by_others_before_it_ends() -> None:
    box = meter(Budget(tokens=100_000))
    answered(box)
    request = counted(box.request(HOST, "POST", PATH))
    request.head(200, "text/event-stream")
    event = b'data: {"type":"content_block_delta","delta":{"text":"' + b"x" * 1000 + b'"}}\n\n'
    assert isinstance(box.request(HOST, "POST", PATH), Counted)
    for _ in range(400):
        request.received(event)
    refused = box.request(HOST, "POST", PATH)
    assert isinstance(refused, Refused)
    assert refused.why is Why.BUSY


def test_gemini_is_priced_by_the_model_of_its_path() -> None:
    box = meter()
    request = counted(
        box.request("generativelanguage.googleapis.com", "POST", "/v1beta/models/gemini-2.5-flash:generateContent")
    )
    request.head(200, "application/json")
    request.received(b'{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000000}}')
    request.end()
    [line] = box.ledger.lines()
    assert (line.model, line.picodollars, line.unlisted) == ("gemini-2.5-flash", parse_dollars("0.3"), 0)

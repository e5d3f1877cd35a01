"""A box's purse: what is counted, what is refused with which answer, and who is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.heads import parse_request, parse_response
from paddock.gateway.purse import Counting, Purse, Spending
from paddock.gateway.refusal import Refusal
from paddock.metering.budget import parse_dollars
from paddock.model import Budget

if TYPE_CHECKING:
    from paddock.gateway.control import BoxUsage
    from paddock.gateway.heads import Head
    from paddock.metering.ledger import Line

HOST, PATH = "api.anthropic.com", "/v1/messages"
ANSWER = json.dumps({"model": "claude-haiku-4-5", "usage": {"input_tokens": 1000, "output_tokens": 1000}}).encode()
CENT = parse_dollars("0.01")


def purse(told: list[BoxUsage], budget: Budget | None = None, lines: tuple[Line, ...] = ()) -> Purse:
    return Purse("id", "box", Spending(budget=budget or Budget(), lines=lines), told.append, lambda: 0.0)


def post(path: str = PATH, method: str = "POST") -> Head:
    return parse_request(f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 2\r\n\r\n".encode())


def spend(box: Purse) -> None:
    asked = box.request(HOST, post())
    assert isinstance(asked, Counting)
    asked.sent(b"{}")
    asked.head(parse_response(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", bodiless=False))
    asked.received(ANSWER)
    asked.end(complete=True)


def refused(box: Purse, head: Head) -> Refusal:
    asked = box.request(HOST, head)
    assert isinstance(asked, Refusal)
    return asked


def test_every_request_is_told_and_the_first_over_the_budget_says_so_once() -> None:
    told: list[BoxUsage] = []
    box = purse(told, Budget(picodollars=CENT))
    spend(box)
    spend(box)
    assert [(usage.id, usage.lines[0].requests, usage.over) for usage in told] == [("id", 1, ""), ("id", 2, "")]
    answer = refused(box, post())
    assert (answer.status, answer.reason) == (402, "budget: the budget of $0.0100 is spent ($0.0120)")
    assert answer.text == "paddock: not sent for box box: the budget of $0.0100 is spent ($0.0120)\n"
    refused(box, post())
    assert [usage.over for usage in told[2:]] == ["the budget of $0.0100 is spent ($0.0120)"]
    assert box.usage() == told[-1]


def test_what_was_spent_before_counts_and_a_higher_budget_opens_it() -> None:
    first: list[BoxUsage] = []
    spend(purse(first))
    box = purse([], Budget(requests=1), first[-1].lines)
    assert refused(box, post()).status == 402
    box.set_budget(Budget(requests=2))
    assert box.usage().over == ""
    spend(box)


def test_what_cannot_be_counted_or_has_no_room_yet_is_refused_in_its_own_way() -> None:
    box = purse([], Budget(tokens=1000))
    assert refused(box, post("/v1/messages/batches")).status == 403
    while isinstance(found := box.request(HOST, post()), Counting):
        pass
    assert isinstance(found, Refusal)
    assert found.status == 429


def test_a_websocket_that_cannot_be_counted_is_answered_so_that_clients_go_on_over_https() -> None:
    words = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n"
    upgrade = parse_request(f"GET /v1/responses HTTP/1.1\r\nHost: {HOST}\r\n{words}".encode())
    answer = refused(purse([], Budget(tokens=1000)), upgrade)
    assert (answer.status, "does not tell what it costs" in answer.text) == (426, True)
    assert isinstance(purse([]).request(HOST, upgrade), Counting)


@pytest.mark.parametrize(
    "path", ["/v1/files/../messages", "/v1/files/%2e%2e/messages", "//v1/messages", "/v1;x/messages"]
)
def test_a_path_with_two_readings_is_refused_under_a_budget(path: str) -> None:
    assert refused(purse([], Budget(requests=9)), post(path)).status == 403
    assert not isinstance(purse([]).request(HOST, post(path)), Refusal)  # where nothing is held to anything


def test_a_request_that_may_be_taken_for_another_method_is_refused_under_a_budget() -> None:
    """Google's services do: a GET of what costs would look free."""
    head = f"GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nX-HTTP-Method-Override: POST\r\n\r\n"
    assert refused(purse([], Budget(requests=9)), parse_request(head.encode())).status == 403
    assert purse([], Budget(requests=9)).request(HOST, post(method="GET")) is None
    assert purse([]).request(HOST, parse_request(head.encode())) is None


def test_of_two_readings_the_one_that_costs_counts() -> None:
    box = purse([], Budget(requests=9))
    assert isinstance(box.request(HOST, post("/v1%2Fmessages")), Counting)
    assert box.request(HOST, post("/v1/files/a%2Fb")) is None
    assert box.request(HOST, post(method="GET")) is None


def test_time_is_a_budget_of_its_own_and_goes_on_where_it_stood() -> None:
    told: list[BoxUsage] = []
    now = [1000.0]
    box = Purse("id", "box", Spending(budget=Budget(seconds=60), seconds=50), told.append, lambda: now[0])
    now[0] += 9
    spend(box)
    now[0] += 1
    answer = refused(box, post())
    assert (answer.status, answer.reason) == (402, "budget: the budget of 1m is over")
    assert (told[-1].over, told[-1].seconds) == ("the budget of 1m is over", 60)
    box.set_budget(Budget(seconds=90))
    spend(box)
    now[0] += 30
    assert refused(box, post()).status == 402

"""A budget holds against any number of requests at once, within what is documented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.limits import METER_FIRST_FLIGHTS_MAX, METER_FLIGHTS_MAX
from paddock.metering.budget import (
    Account,
    Flight,
    Refused,
    Spent,
    Why,
    dollars,
    over,
    parse_count,
    parse_dollars,
)
from paddock.metering.prices import PICODOLLARS
from paddock.model import Budget
from tests.support.properties import bounded


@pytest.mark.parametrize(
    ("budget", "spent", "elapsed_s", "reason"),
    [
        (Budget(), Spent(picodollars=10**20, tokens=10**12, requests=10**6), 1e9, ""),
        (Budget(picodollars=PICODOLLARS), Spent(picodollars=PICODOLLARS - 1), 0.0, ""),
        (Budget(picodollars=PICODOLLARS), Spent(picodollars=PICODOLLARS), 0.0, "the budget of $1.00 is spent ($1.00)"),
        (Budget(picodollars=0), Spent(), 0.0, "the budget of $0.00 is spent ($0.00)"),
        (Budget(tokens=10), Spent(tokens=11), 0.0, "the budget of 10 tokens is spent (11)"),
        (Budget(requests=2), Spent(requests=2), 0.0, "the budget of 2 requests is spent"),
        (Budget(requests=2), Spent(requests=1), 0.0, ""),
        (Budget(seconds=60), Spent(), 60.0, "the budget of 1m is over"),
    ],
)
def test_a_budget_that_is_spent_says_so(budget: Budget, spent: Spent, elapsed_s: float, reason: str) -> None:
    assert over(budget, spent, elapsed_s) == reason


def admitted(account: Account) -> Flight:
    flight = account.admit()
    assert isinstance(flight, Flight)
    return flight


def test_requests_count_when_they_are_sent() -> None:
    account = Account(Budget(requests=3))
    for _ in range(3):
        admitted(account)
    assert account.admit() == Refused(why=Why.SPENT, reason="the budget of 3 requests is spent")


def test_before_anything_is_known_only_a_few_fly() -> None:
    account = Account(Budget(picodollars=PICODOLLARS))
    flights = [admitted(account) for _ in range(METER_FIRST_FLIGHTS_MAX)]
    refused = account.admit()
    assert isinstance(refused, Refused)
    assert refused.why is Why.BUSY
    account.settle(flights[0], PICODOLLARS // 100, 0)
    assert isinstance(account.admit(), Flight)


@pytest.mark.parametrize("cost", [0, 1])
def test_a_cheap_request_or_one_that_failed_opens_no_flood(cost: int) -> None:
    """The dearest so far says little if a box begins with cheap ones."""
    account = Account(Budget(picodollars=PICODOLLARS, tokens=10**6))
    account.settle(admitted(account), cost, cost)
    flights: list[Flight] = []
    while isinstance(answer := account.admit(), Flight) and len(flights) < 100:
        flights.append(answer)
    assert len(flights) == (METER_FLIGHTS_MAX if cost else METER_FIRST_FLIGHTS_MAX)
    assert isinstance(answer, Refused)
    assert answer.why is Why.BUSY


def test_without_a_limit_any_number_flies() -> None:
    account = Account(Budget())
    for _ in range(100):
        admitted(account)


def test_what_flies_is_reserved_at_the_dearest_so_far() -> None:
    account = Account(Budget(picodollars=100))
    account.settle(admitted(account), 30, 0)
    first = admitted(account)
    admitted(account)
    refused = account.admit()  # 30 spent, 30 and 30 in flight
    assert isinstance(refused, Refused)
    account.settle(first, 1, 0)
    assert isinstance(account.admit(), Flight)


def test_a_request_that_grows_leaves_less_for_others() -> None:
    account = Account(Budget(tokens=100))
    account.settle(admitted(account), 0, 10)
    flight = admitted(account)
    account.grow(flight, 0, 85)
    assert isinstance(account.admit(), Refused)
    account.grow(flight, 0, 1)
    assert flight.tokens == 85


def test_a_request_is_settled_once() -> None:
    account = Account(Budget())
    flight = admitted(account)
    account.settle(flight, 5, 5)
    account.settle(flight, 5, 5)
    assert account.spent == Spent(picodollars=5, tokens=5, requests=1)


def test_a_lone_request_is_sent_while_anything_is_left() -> None:
    account = Account(Budget(picodollars=100))
    account.settle(admitted(account), 99, 0)
    account.settle(admitted(account), 99, 0)
    refused = account.admit()
    assert isinstance(refused, Refused)
    assert refused.why is Why.SPENT


@bounded
@given(
    st.integers(1, 10_000),
    st.integers(1, 2_000),
    st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 2_000)), max_size=120),
)
def test_any_number_at_once_overshoots_by_one_request_at_most(
    limit: int, first: int, steps: list[tuple[bool, int, int]]
) -> None:
    """No request costs more than the first, as the documented bound asks."""
    account = Account(Budget(picodollars=limit))
    account.settle(admitted(account), first, 0)
    flights: list[Flight] = []
    for ask, which, cost in steps:
        if ask:
            answer = account.admit()
            if isinstance(answer, Flight):
                flights.append(answer)
        elif flights:
            account.settle(flights.pop(which % len(flights)), min(cost, first), 0)
    for flight in flights:
        account.settle(flight, first, 0)
    assert account.spent.picodollars < limit + first


@pytest.mark.parametrize(
    ("text", "picodollars"),
    [
        ("5", 5 * PICODOLLARS),
        ("$5", 5 * PICODOLLARS),
        ("0.01", PICODOLLARS // 100),
        ("0", 0),
        ("1.000001", 1_000_001_000_000),
    ],
)
def test_an_amount_is_read(text: str, picodollars: int) -> None:
    assert parse_dollars(text) == picodollars


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1,5", "5$", "1.0000001", "99999999", "nan", " 1"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not an amount"):
        parse_dollars(text)


@pytest.mark.parametrize(
    ("text", "count"), [("500", 500), ("200k", 200_000), ("2M", 2_000_000), ("1.5m", 1_500_000), ("0", 0)]
)
def test_a_count_is_read(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "1.5", "2MB", "k", "1e6", "1 k"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not a number"):
        parse_count(text)


@pytest.mark.parametrize(
    ("picodollars", "shown"),
    [(0, "$0.00"), (PICODOLLARS // 100, "$0.0100"), (12_345 * PICODOLLARS // 1000, "$12.35"), (1, "$0.0000")],
)
def test_an_amount_is_shown(picodollars: int, shown: str) -> None:
    assert dollars(picodollars) == shown

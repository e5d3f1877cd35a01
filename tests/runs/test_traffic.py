"""What the gateway's log tells of a run: who was refused, and whether the key is good."""

from __future__ import annotations

import pytest

from paddock.agents import parse
from paddock.gateway.records import Decision, Event, Record
from paddock.reports import HostCount, TrafficInfo
from paddock.runs.traffic import Traffic, matches

AGENT = parse(
    """
name = "mine"
title = "Mine"
program = "mine"
[keys]
any = ["anthropic"]
[hosts]
allow = ["api.mine.test:443"]
domains = ["cdn.test"]
telemetry = ["spy.mine.test", "*.metrics.test"]
"""
)


def decided(host: str, decision: Decision = Decision.DENY, port: int = 443) -> Record:
    return Record(time="t", event=Event.DECISION, box="b", host=host, port=port, decision=decision)


def requested(
    status: int, host: str = "api.mine.test", secrets: str = "anthropic", decision: Decision = Decision.ALLOW
) -> Record:
    event = Event.REQUEST
    return Record(
        time="t", event=event, box="b", host=host, port=443, decision=decision, status=status, secrets=secrets
    )


def test_what_was_let_through_is_counted_and_what_was_refused_is_named_telemetry_apart() -> None:
    traffic = Traffic(AGENT)
    refused = [decided("pypi.org"), decided("pypi.org"), decided("spy.mine.test"), decided("a.b.metrics.test")]
    allowed = [decided("api.mine.test", Decision.ALLOW), decided("seen.test", Decision.OBSERVE)]
    end = Record(time="t", event=Event.END, box="b", host="x", decision=Decision.ALLOW)
    traffic.add([*refused, *allowed, end, requested(200), requested(403, decision=Decision.DENY)], 0.0)
    assert traffic.info() == TrafficInfo(
        connections=2,
        requests=1,
        refused=(HostCount(host="pypi.org", count=2), HostCount(host="api.mine.test", count=1)),
        telemetry=(HostCount(host="a.b.metrics.test", count=1), HostCount(host="spy.mine.test", count=1)),
    )


def test_a_name_that_was_refused_counts_once_when_it_was_then_tried() -> None:
    traffic = Traffic(AGENT)
    traffic.add([decided("a.test", port=0), decided("a.test", port=0), decided("a.test"), decided("b.test", port=0)], 0)
    assert traffic.info().refused == (HostCount(host="a.test", count=1), HostCount(host="b.test", count=1))


def test_a_budgets_refusal_is_no_matter_of_policy() -> None:
    traffic = Traffic(AGENT)
    traffic.add([requested(402, decision=Decision.DENY)], 0.0)
    assert (traffic.info().refused, traffic.needed()) == ((), ())


def test_a_log_with_gaps_is_not_complete() -> None:
    lost, missed = Traffic(AGENT), Traffic(AGENT)
    lost.add([Record(time="t", event=Event.LOST, box="b", count=3)], 0.0)
    missed.missed()
    assert not lost.info().complete
    assert not missed.info().complete
    assert Traffic(None).info().complete


def test_a_box_cannot_make_the_record_long() -> None:
    traffic = Traffic(AGENT)
    traffic.add((decided(f"h{number}.test") for number in range(100_000)), 0.0)
    found = traffic.info().refused
    assert len(found) == 33
    assert sum(one.count for one in found) == 100_000


@pytest.mark.parametrize(
    ("records", "needed"),
    [
        ([decided("api.mine.test")], ("api.mine.test",)),
        ([decided("api.mine.test"), decided("x.test", Decision.ALLOW)], ("api.mine.test",)),
        ([decided("a.cdn.test"), decided("x.test", Decision.ALLOW)], ("a.cdn.test",)),
        ([decided("pypi.org"), decided("x.test", Decision.ALLOW)], ()),
        ([decided("pypi.org")], ("pypi.org",)),
        ([decided("spy.mine.test")], ()),
        ([], ()),
    ],
    ids=["own", "own-among-others", "domain", "other", "nothing-else", "telemetry", "none"],
)
def test_what_an_agent_cannot_do_without_is_known_by_its_definition_or_because_nothing_else_was_reached(
    records: list[Record], needed: tuple[str, ...]
) -> None:
    traffic = Traffic(AGENT)
    traffic.add(records, 0.0)
    assert traffic.needed() == needed


def test_where_its_key_goes_is_what_an_agent_needs_too() -> None:
    traffic = Traffic(AGENT, ["api.keys.test"])
    traffic.add([decided("api.keys.test"), decided("x.test", Decision.ALLOW)], 0.0)
    assert traffic.needed() == ("api.keys.test",)


def test_a_key_that_every_answer_refuses_is_shut_out_after_three_answers_and_five_seconds() -> None:
    traffic = Traffic(AGENT)
    traffic.add([requested(401), requested(403)], 10.0)
    assert not traffic.is_shut_out(100.0), "two may be an accident"
    traffic.add([requested(401)], 12.0)
    assert not traffic.is_shut_out(14.9)
    assert traffic.is_shut_out(15.0)
    assert (traffic.key_refused, traffic.answers) == ("api.mine.test", 3)


@pytest.mark.parametrize(
    ("other", "shut"),
    [
        (requested(200), False),
        (requested(429), False),
        (requested(400), False),
        (requested(404), True),
        (requested(529), True),
        (requested(0), True),
        (requested(200, secrets=""), True),
        (requested(200, host="api.github.com", secrets="github"), True),
    ],
    ids=["200", "429", "400", "404", "529", "none", "without-key", "other-key"],
)
def test_one_answer_to_the_key_that_is_another_keeps_a_run_on(other: Record, shut: bool) -> None:
    traffic = Traffic(AGENT)
    traffic.add([other, *[requested(401)] * 5], 0.0)
    assert traffic.is_shut_out(60.0) is shut


def test_who_refuses_another_key_does_not_end_a_run() -> None:
    traffic = Traffic(AGENT)
    traffic.add([requested(401, host="api.github.com", secrets="github")] * 5, 0.0)
    assert (traffic.is_shut_out(60.0), traffic.key_refused) == (False, "")
    assert not Traffic(None).is_shut_out(60.0)


def test_a_key_that_was_taken_in_the_end_is_not_the_reason() -> None:
    traffic = Traffic(AGENT)
    traffic.add([requested(401), requested(200)], 0.0)
    assert traffic.key_refused == ""


def test_a_key_without_a_value_is_a_key_that_was_refused() -> None:
    traffic = Traffic(AGENT)
    traffic.add([requested(424, secrets="", decision=Decision.DENY)], 0.0)
    assert (traffic.key_refused, traffic.info().refused) == ("api.mine.test", ())


@pytest.mark.parametrize(
    ("host", "pattern", "same"),
    [
        ("a.test", "a.test", True),
        ("A.test", "a.test:443", True),
        ("b.a.test", "a.test", False),
        ("b.a.test", "*.a.test", True),
        ("a.test", "*.a.test", False),
        ("evila.test", "*.a.test", False),
    ],
)
def test_a_pattern_is_a_host_or_what_lies_below_a_name(host: str, pattern: str, *, same: bool) -> None:
    assert matches(host, [pattern]) is same

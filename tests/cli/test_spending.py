"""usage: a table for people, everything for programs."""

from __future__ import annotations

from paddock.cli.spending import _row
from paddock.metering.ledger import Line, Report


def test_a_line_says_what_was_spent_and_how_sure_that_is() -> None:
    line = Line(
        provider="openai",
        model="gpt-\x1b[31m5",
        requests=3,
        input=10,
        output=20,
        cache_read=5,
        cache_write=1,
        picodollars=12 * 10**9,
        estimated=1,
        unlisted=2,
    )
    row = _row(Report(box="1", name="a"), line)
    assert row[2:] == ("3", "10", "20", "6", "$0.0120", "1 estimated, 2 at the dearest price")
    assert "\x1b" not in row[1]
    assert _row(Report(box="1", name="a"), Line(provider="openai", model=""))[1] == "(openai)"

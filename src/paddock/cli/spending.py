"""usage: what boxes spent on models."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.client import Paddock
from paddock.client.answers import expect_list
from paddock.metering.budget import dollars
from paddock.metering.ledger import Report

if TYPE_CHECKING:
    import argparse

    from paddock.metering.ledger import Line

_HEAD = ("BOX", "MODEL", "REQUESTS", "INPUT", "OUTPUT", "CACHED", "COST", "NOTE")


def usage(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        reports = [codec.from_wire(Report, row) for row in expect_list(paddock.call("usage", box=options.box))]
    if options.json:
        print(json.dumps([codec.to_wire(report) for report in reports], indent=2))
        return 0
    rows = [_row(report, line) for report in reports for line in report.lines]
    if rows:
        print(text.table(rows, _HEAD))
    else:
        print("nothing was spent where it is counted: in boxes with a budget or a model's secret", file=sys.stderr)
    for report in reports:
        if report.over:
            print(text.neutralise(f"{report.name}: {report.over}"), file=sys.stderr)
    return 0


def _row(report: Report, line: Line) -> tuple[str, ...]:
    notes = []
    if line.estimated:
        notes.append(f"{line.estimated} estimated")
    if line.unlisted:
        notes.append(f"{line.unlisted} at the dearest price")
    return (
        report.name,
        text.neutralise(line.model or f"({line.provider})"),
        str(line.requests),
        str(line.input),
        str(line.output),
        str(line.cache_read + line.cache_write),
        dollars(line.picodollars),
        ", ".join(notes),
    )

"""network log: what boxes reached or tried to, summed up per destination, or one decision after the other."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from paddock import text
from paddock.cli import amounts
from paddock.client import Paddock
from paddock.gateway import records
from paddock.gateway.records import Decision, Event

if TYPE_CHECKING:
    import argparse

    from paddock.gateway.records import Record
    from paddock.reports import NetworkLog

_POLL_S = 0.1
_LOOK_AGAIN_EVERY = 20  # polls: boxes may have come meanwhile
_REFUSED = {Decision.DENY, Decision.OBSERVE}
_DECIDING = {Event.DECISION, Event.REQUEST}


def network_log(options: argparse.Namespace) -> int:
    limit = amounts.count(options.limit, "--limit")
    with Paddock() as paddock:
        if options.follow:
            _follow(paddock, options, limit)
            return 0
        logs = paddock.policy.logs(options.box)
    found = sorted((record for log in logs for record in records.read(log.paths)), key=lambda record: record.time)
    found = [record for record in found if _wanted(record, options)]
    if options.json:
        _print(found[-limit:] if limit else found, as_json=True)
        return 0
    _print_table(found, limit)
    return 0


def _print_table(found: list[Record], limit: int | None) -> None:
    rows = [
        (
            each.last[:19].replace("T", " "),
            each.box,
            each.decision.value,
            _target(each.host, each.port),
            each.protocol,
            str(each.count),
            f"{text.size(each.sent_bytes)}/{text.size(each.received_bytes)}",
            each.rule or each.reason,
        )
        for each in records.aggregate(found)[:limit]
    ]
    if not rows:
        print("nothing was decided yet", file=sys.stderr)
        return
    print(text.table(rows[::-1], ("LAST (UTC)", "BOX", "DECISION", "HOST", "PROTOCOL", "COUNT", "OUT/IN", "RULE")))


def _follow(paddock: Paddock, options: argparse.Namespace, limit: int | None) -> None:
    """Until we are interrupted; begins with the newest lines."""
    readers: dict[str, records.Reader] = {}
    polls = 0
    while True:
        if polls % _LOOK_AGAIN_EVERY == 0:
            for log in paddock.policy.logs(options.box):
                readers.setdefault(log.id, _reader(log))
        fresh = [record for reader in readers.values() for record in reader.poll() if _wanted(record, options)]
        fresh.sort(key=lambda record: record.time)
        _print(fresh[-limit:] if limit and polls == 0 else fresh, as_json=options.json)
        polls += 1
        time.sleep(_POLL_S)


def _reader(log: NetworkLog) -> records.Reader:
    return records.Reader(log.paths)


def _wanted(record: Record, options: argparse.Namespace) -> bool:
    return not options.denied or (record.event in _DECIDING and record.decision in _REFUSED)


def _print(found: list[Record], *, as_json: bool) -> None:
    for record in found:
        print(json.dumps(json.loads(record.to_line())) if as_json else text.neutralise(_line(record), 600))
    sys.stdout.flush()


def _line(record: Record) -> str:
    head = f"{record.time} {record.box}"
    match record.event:
        case Event.DECISION:
            why = f" by {record.rule}" if record.rule else f": {record.reason}"
            return f"{head} {record.decision.value} {_target(record.host, record.port)} ({record.protocol}){why}"
        case Event.END:
            amount = f"{text.size(record.sent_bytes)} out, {text.size(record.received_bytes)} in"
            spent = text.duration(record.duration_ms / 1000)
            return f"{head} end {_target(record.host, record.port)} ({record.protocol}): {amount}, {spent}"
        case Event.REQUEST:
            asked = f"{record.method} {_target(record.host, record.port)}{record.path}"
            outcome = f"{record.decision.value} {record.reason}" if record.reason else record.decision.value
            return f"{head} request {asked}: {record.status or '-'}, {outcome}"
        case Event.POLICY:
            return f"{head} policy changed: {record.reason}; {record.count} connections closed"
        case Event.LOST:
            return f"{head} {record.count} records were lost for want of room on the disk"


def _target(host: str, port: int) -> str:
    return f"{_host(host)}:{port}" if port else _host(host)  # a name that was only asked for has no port


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host

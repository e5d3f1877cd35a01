"""network log: summed up for people, record by record for programs, followed as it happens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.cli import netlog
from paddock.gateway.records import Decision, Event, Record

if TYPE_CHECKING:
    from tests.support.installation import Installation
    from tests.support.origin import Origin


def record(**changes: object) -> Record:
    values: dict[str, object] = {
        "time": "2030-01-01T00:00:00.000+00:00",
        "event": Event.DECISION,
        "box": "box",
        "protocol": "tls",
        "host": "a.example",
        "port": 443,
        "decision": Decision.DENY,
        "reason": "no rule",
    }
    return Record(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (record(), "deny a.example:443 (tls): no rule"),
        (record(decision=Decision.ALLOW, rule="allow a.example"), "allow a.example:443 (tls) by allow a.example"),
        (
            record(event=Event.END, sent_bytes=2048, received_bytes=3, duration_ms=1500),
            "end a.example:443 (tls): 2KiB out, 3B in, 1.5s",
        ),
        (
            record(event=Event.REQUEST, decision=Decision.ALLOW, reason="", method="GET", path="/x", status=200),
            "request GET a.example:443/x: 200, allow",
        ),
        (
            record(event=Event.REQUEST, method="POST", path="/x", status=403, reason="request: no"),
            "request POST a.example:443/x: 403, deny request: no",
        ),
        (record(event=Event.POLICY, reason="changed", count=2), "policy changed: changed; 2 connections closed"),
        (record(event=Event.LOST, count=7), "7 records were lost for want of room on the disk"),
        (record(host="2001:db8::1"), "deny [2001:db8::1]:443 (tls): no rule"),
    ],
)
def test_every_kind_of_record_has_a_line(made: Record, shown: str) -> None:
    assert netlog._line(made) == f"2030-01-01T00:00:00.000+00:00 box {shown}"


@pytest.mark.box
def test_the_log_shows_both_what_was_reached_and_what_was_refused(installation: Installation, origin: Origin) -> None:
    assert installation.cli("network", "log", "nobox").returncode == 2
    assert installation.cli("create", "box", "--allow-host", origin.rule).returncode == 0
    assert installation.cli("exec", "box", *origin.fetch()).returncode == 0
    for _ in range(2):
        installation.cli("exec", "box", "curl", "-s", "-m", "5", "http://denied.example/")
    table = installation.cli("network", "log", "box").stdout.decode().splitlines()
    assert table[0].split()[-6:] == ["DECISION", "HOST", "PROTOCOL", "COUNT", "OUT/IN", "RULE"]
    rows = {line.split()[4]: line.split() for line in table[1:]}
    assert (rows[origin.rule][2], rows[origin.rule][3]) == ("box", "allow")
    assert (rows["denied.example:80"][3], rows["denied.example:80"][6]) == ("deny", "2")
    lines = [json.loads(line) for line in installation.cli("network", "log", "--json", "box").stdout.splitlines()]
    assert [line["port"] for line in lines if line.get("event") == "end"] == [origin.port]
    denied = installation.cli("network", "log", "--denied", "--json", "--limit", "1", "box").stdout.splitlines()
    assert [json.loads(line)["decision"] for line in denied] == ["deny"]


@pytest.mark.box
def test_the_log_of_a_run_can_be_read_after_it(installation: Installation) -> None:
    done = installation.cli("run", "--name", "gone", "--rm", "--", "curl", "-s", "-m", "5", "http://denied.example/")
    assert b"is denied for box gone" in done.stdout
    assert installation.cli("ls", "-q").stdout == b""
    assert b"denied.example:80" in installation.cli("network", "log").stdout
    assert b"denied.example:80" in installation.cli("network", "log", "gone").stdout


@pytest.mark.box
def test_following_shows_decisions_as_they_are_made(installation: Installation) -> None:
    assert installation.cli("create", "box").returncode == 0
    with installation.spawn("network", "log", "--follow", "box") as follower:
        try:
            assert follower.stdout is not None
            installation.cli("exec", "box", "curl", "-s", "-m", "5", "http://one.example/")
            while b"one.example:80" not in (line := follower.stdout.readline()):
                assert line
            installation.cli("exec", "box", "curl", "-s", "-m", "5", "http://two.example/")
            while b"two.example:80" not in (line := follower.stdout.readline()):
                assert line
        finally:
            follower.kill()

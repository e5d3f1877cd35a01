"""What a box spends on models is read from the wire, and a budget ends it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.metering.ledger import Report
from paddock.model import Budget
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from tests.support.internet import Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL

ALLOW = ("--allow-host", "api.anthropic.com")
ASK = "curl -sS -m 20 -w '%{http_code}\\n' -o answer -X POST -d '{}' https://api.anthropic.com/v1/messages"


def usage(online: Online, box: str) -> list[Report]:
    """By its id: of a name also what an earlier box of that name spent is told."""
    (found,) = json.loads(online.cli("inspect", "--json", box).stdout)
    done = online.cli("usage", "--json", found["id"])
    assert done.returncode == 0, done.stderr
    return [codec.from_wire(Report, row) for row in json.loads(done.stdout)]


def test_a_budget_refuses_the_request_after_it_is_spent_and_ends_the_run(online: Online) -> None:
    script = f"{ASK}; {ASK}; {ASK}; cat answer; exec sleep 60"
    free = online.cli("run", *ALLOW, "--", "sh", "-c", f"{ASK}; {ASK}; {ASK}")
    assert free.stdout == b"200\n200\n200\n", free.stderr
    done = online.cli("run", "--max-cost", "0.01", "--name", "poor", *ALLOW, "--", "sh", "-c", script)
    assert done.stdout.splitlines()[:3] == [b"200", b"200", b"402"], done.stderr
    assert b"the budget of $0.0100 is spent ($0.0120)" in done.stdout
    assert done.returncode == 78
    assert b"the budget of $0.0100 is spent" in done.stderr
    (report,) = usage(online, "poor")
    (line,) = report.lines
    assert (line.model, line.requests, line.input, line.output) == ("claude-haiku-4-5", 2, 2000, 2000)
    assert line.picodollars == 12 * 10**9
    shown = online.cli("usage")
    assert b"claude-haiku-4-5" in shown.stdout
    again = online.cli("exec", "poor", "sh", "-c", ASK)
    assert again.stdout == b"402\n", "what was spent is known after the box was started anew"
    more = online.cli("run", "--max-cost", "1", "--name", "poor", "--", "sh", "-c", f"{ASK}; sleep 1.5")
    assert (more.returncode, more.stdout) == (0, b"200\n"), more.stderr  # it does not end for what was spent before
    assert usage(online, "poor")[0].budget == Budget(picodollars=10**12)


@pytest.mark.parametrize("words", [(), ("--name", "kept")], ids=["passing", "kept"])
def test_a_command_that_gives_up_at_the_refusal_ends_by_the_budget_too(online: Online, words: tuple[str, ...]) -> None:
    done = online.cli("run", "--max-requests", "1", *words, *ALLOW, "--", "sh", "-c", f"{ASK}; {ASK}; exit 3")
    assert (done.returncode, done.stdout) == (78, b"200\n402\n")
    assert b"error: the budget of 1 requests is spent\n" in done.stderr
    if words:
        again = online.cli("exec", "kept", "sh", "-c", f"{ASK}; exit 3")
        assert (again.returncode, again.stdout) == (78, b"402\n")
    within = online.cli("run", "--max-requests", "2", *ALLOW, "--", "sh", "-c", f"{ASK}; {ASK}; exit 3")
    assert (within.returncode, within.stdout, within.stderr) == (3, b"200\n200\n", b"")


def test_time_is_a_budget_too_and_what_was_used_of_it_stays_used(online: Online) -> None:
    script = f"while :; do {ASK}; grep -q budget answer && exec sleep 60; done"
    done = online.cli("run", "--max-time", "4s", "--name", "brief", *ALLOW, "--", "sh", "-c", script)
    told = done.stdout.split()
    assert (told[0], told[-1], set(told[:-1])) == (b"200", b"402", {b"200"}), done.stderr
    assert done.returncode == 78
    assert b"the budget of 4s is over" in done.stderr
    online.kill_daemon()
    again = online.cli("exec", "brief", "sh", "-c", f"{ASK}; cat answer")
    assert again.stdout.startswith(b"402\npaddock: not sent for box brief: the budget of 4s is over")
    assert usage(online, "brief")[0].seconds >= 4
    more = online.cli("run", "--max-time", "1h", "--name", "brief", "--", "sh", "-c", ASK)
    assert (more.returncode, more.stdout) == (0, b"200\n"), more.stderr


def test_what_was_spent_outlives_daemon_and_gateway(online: Online) -> None:
    assert online.cli("create", "--max-requests", "3", *ALLOW, "counted").returncode == 0
    assert online.cli("exec", "counted", "sh", "-c", ASK).stdout == b"200\n"
    online.kill_daemon()
    assert online.cli("daemon", "start").returncode == 0
    until(lambda: online.status()["gateway_pid"], "the gateway is found again")
    until(lambda: any(told.lines for told in usage(online, "counted")), "it has told the next daemon")
    gateway = online.status()["gateway_pid"]
    assert isinstance(gateway, int)
    os.kill(gateway, signal.SIGKILL)
    until(lambda: online.status()["gateway_pid"] not in {gateway, None}, "another gateway serves")
    assert online.cli("exec", "counted", "sh", "-c", ASK).stdout == b"200\n"
    until(lambda: usage(online, "counted")[0].lines[0].requests == 2, "both are told")
    assert online.cli("stop", "counted").returncode == 0
    done = online.cli("exec", "counted", "sh", "-c", f"{ASK}; {ASK}")
    assert done.stdout == b"200\n402\n"


def test_a_key_of_a_models_service_is_counted_without_a_budget(online: Online) -> None:
    key = {"ANTHROPIC_API_KEY": "sk-ant-api03-live-5f0c2a7741d94e6b9f"}
    online.cli("run", "--secret", "anthropic", "--name", "rich", *ALLOW, "--", "sh", "-c", ASK, env=key)
    until(lambda: usage(online, "rich")[0].lines, "it is told")
    assert usage(online, "rich")[0].over == ""

"""What the gateway knows of a run stands in its record: a key that is not taken, what it cost, what was refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.reports import HostCount, RunInfo
from tests.network.test_secrets import KEY, OTHER_KEY, SET, guarded
from tests.support import contract, scripted

if TYPE_CHECKING:
    from tests.support.internet import Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL
ASK = f'curl -sS -m 20 -o /dev/null -w "%{{http_code}}\\n" -H "X-Api-Key: $SHOP_KEY" {guarded(KEY)}'
MESSAGE = "curl -sS -m 20 -o /dev/null -X POST -d '{}' https://api.anthropic.com/v1/messages"
SHOP = """
[keys]
any = ["shop"]
[hosts]
allow = ["allowed.example"]
telemetry = ["other.example"]
"""


def newest(online: Online) -> RunInfo:
    (row,) = json.loads(online.cli("runs", "--json", "--limit", "1").stdout)
    return codec.from_wire(RunInfo, row)


def test_a_headless_run_whose_key_every_answer_refuses_is_ended_and_a_good_key_is_not(online: Online) -> None:
    """It would retry for ever, in silence. With the right key it ends by itself."""
    script = f'echo up; while test "$({ASK})" != 200; do sleep 0.5; done; echo done'
    file = str(scripted.install(online.workspace, script, SHOP))
    run = ("run", "--agent-file", file, "--", "p")
    assert online.cli(*SET, stdin=OTHER_KEY.encode()).returncode == 0
    wrong = online.cli(*run)
    assert wrong.stdout == b"up\n"
    assert wrong.returncode == 1
    told = wrong.stderr.decode()
    assert "failed for want of a good key: allowed.example refused its key: " in told
    assert "next: `paddock secret set shop` keeps a good key; " in told
    info = newest(online)
    assert (info.reason, info.exit_code, info.final) == ("auth", 1, "up")
    assert online.cli(*SET, stdin=KEY.encode()).returncode == 0
    right = online.cli(*run)
    assert (right.returncode, right.stdout) == (0, b"up\ndone\n"), right.stderr
    assert newest(online).reason == "done"


def test_an_agent_that_gives_up_at_a_refused_key_or_host_says_so_in_its_record(online: Online) -> None:
    file = str(scripted.install(online.workspace, f"{ASK}; curl -s -m 20 https://other.example; exit 3", SHOP))
    assert online.cli(*SET, stdin=OTHER_KEY.encode()).returncode == 0
    refused = online.cli("run", "--agent-file", file, "--name", "keyed", "--", "p")
    assert (refused.returncode, refused.stdout.split()[0]) == (3, b"401")
    info = newest(online)
    assert (info.reason, info.why) == ("auth", "allowed.example did not take its key")
    assert (info.network.telemetry, info.network.refused) == ((HostCount(host="other.example", count=1),), ())
    assert (info.network.connections, info.network.requests, info.metered) == (1, 1, True)
    assert online.cli(*SET, stdin=KEY.encode()).returncode == 0
    blocked = ("run", "--agent-file", file, "--name", "closed", "--block-host", "allowed.example", "--", "p")
    assert online.cli(*blocked).returncode == 3
    info = newest(online)
    assert (info.reason, info.why) == ("denied", "it needs allowed.example, which the policy refused")
    elsewhere = SHOP.replace("allowed.example", "www.allowed.example")
    script = f"curl -s -o /dev/null https://www.allowed.example; {ASK}; exit 3"
    by_key = str(scripted.install(online.workspace, script, elsewhere))
    keyed = ("run", "--agent-file", by_key, "--name", "by-key", "--block-host", "allowed.example", "--", "p")
    assert online.cli(*keyed).returncode == 3
    info = newest(online)
    assert (info.reason, info.network.connections) == ("denied", 1)
    assert info.why == "it needs allowed.example, which the policy refused", "because its key goes there"
    scripted.install(online.workspace, f"{ASK}; exit 3", SHOP)
    assert online.cli("run", "keyed", "--", "p").returncode == 3
    assert newest(online).reason == "failed", "with a good key it is the agent's own failure"


def test_a_runs_cost_is_what_its_box_spent_meanwhile_and_a_spent_budget_is_its_reason(online: Online) -> None:
    more = '[hosts]\nallow = ["api.anthropic.com"]\n'
    file = str(scripted.install(online.workspace, f"{MESSAGE}; {MESSAGE}; echo well", more))
    first = online.cli("run", "--agent-file", file, "--name", "counted", "--max-cost", "0.02", "--", "p")
    assert first.returncode == 0, first.stderr
    assert b"cost: $0.0120: 2 requests, 4000 tokens of claude-haiku-4-5\n" in first.stderr
    info = newest(online)
    assert (info.reason, info.cost_picodollars, info.metered) == ("done", 12 * 10**9, True)
    (use,) = info.usage
    assert (use.model, use.requests, use.input, use.output) == ("claude-haiku-4-5", 2, 2000, 2000)
    (online.workspace / "mine.sh").write_text(f"#!/bin/sh\n{MESSAGE}; {MESSAGE}; {MESSAGE}; exec sleep 60\n")
    second = online.cli("run", "counted", "--", "p")
    assert second.returncode == 78, second.stderr
    assert b" budget: the budget of $0.0200 is spent" in second.stderr
    info = newest(online)
    assert (info.reason, info.exit_code, info.cost_picodollars) == ("budget", 78, 12 * 10**9)
    assert b"counted" in online.cli("runs", "counted").stdout

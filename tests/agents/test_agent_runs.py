"""The agents that people use, by their names: each works by its definition alone, as it comes from its makers.

Their services are stand-ins that take the real key alone (tests/support/model_apis.py), and the model is scripted.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from paddock import agents
from tests.support import contract
from tests.support.agents import NAMED
from tests.support.pasture import OUTSIDE
from tests.support.terminal import Person

if TYPE_CHECKING:
    from tests.support.agents import Named
    from tests.support.pasture import Pasture

pytestmark = pytest.mark.box
ENGINES = contract.FULL
each_agent = pytest.mark.parametrize("agent", NAMED, ids=lambda agent: agent.name)
FIRST, SECOND = "Count the lambs.", "And now the ewes."
LAMBS, EWES = "There are 4217 lambs.", "There are 1729 ewes."
WRONG_KEY_S = 20.0  # from the first refusal, and not after minutes of trying again


def lend(pasture: Pasture, agent: Named, *, key: str = "") -> None:
    value = key or pasture.services.keys[agent.host]
    done = pasture.cli("secret", "set", agent.secret, stdin=value.encode())
    assert done.returncode == 0, done.stderr


def last_run(pasture: Pasture, box: str) -> dict[str, Any]:
    done = pasture.cli("runs", "--json", "--limit", "1", box)
    (row,) = json.loads(done.stdout)
    assert isinstance(row, dict)
    return row


def three_steps(pasture: Pasture) -> None:
    made = str(pasture.workspace / "made.txt")
    pasture.services.script(("run", "echo kept > proof.txt"), ("write", made, "by its own tool\n"), ("say", LAMBS))


def files(pasture: Pasture) -> tuple[str, str]:
    return (pasture.workspace / "proof.txt").read_text(), (pasture.workspace / "made.txt").read_text()


@each_agent
def test_an_agent_does_what_its_prompt_says_goes_on_later_and_reaches_nobody_else(
    pasture: Pasture, agent: Named
) -> None:
    lend(pasture, agent)
    three_steps(pasture)
    box = f"does-{agent.name}"
    done = pasture.run_named(agent, FIRST, options=("--name", box))
    assert (done.returncode, LAMBS in done.stdout.decode()) == (0, True), (done.stdout, done.stderr)
    assert files(pasture) == ("kept\n", "by its own tool\n")
    assert (run := last_run(pasture, box))["reason"] == "done"
    assert (run["agent"], run["mode"], run["changed"]["count"]) == (agent.name, "headless", 2)
    asked = pasture.services.answers(agent.host)
    assert (sum(line["requests"] for line in run["usage"]), run["cost_picodollars"] > 0) == (len(asked), True)
    _it_goes_on(pasture, agent, box)


def _it_goes_on(pasture: Pasture, agent: Named, box: str) -> None:
    """In a second run, of which the service is told what was said in the first; this one tries to leave."""
    services = pasture.services
    services.script(("run", f"curl -sS --max-time 20 https://{OUTSIDE}/ > outside.txt 2>&1"), ("say", EWES))
    done = pasture.cli("run", box, "--", "--continue", SECOND)
    assert (done.returncode, EWES in done.stdout.decode()) == (0, True), (done.stdout, done.stderr)
    final = [row for row in services.answers(agent.host) if row["final"]][-1]
    assert [FIRST in heard for heard in final["heard"] if FIRST in heard or SECOND in heard] == [True, False]
    assert LAMBS in final["told"]
    said = (pasture.workspace / "outside.txt").read_text()
    assert said.startswith(f"paddock: {OUTSIDE}:443 is denied for box {box}")
    assert services.requests(OUTSIDE) == []
    assert services.run(["curl", "-sSf", f"https://{OUTSIDE}/"]).returncode == 0, "outside of the box it is there"


@each_agent
def test_an_agent_with_a_wrong_key_says_so_itself_within_seconds(pasture: Pasture, agent: Named) -> None:
    lend(pasture, agent, key=agent.key + "A" * 40)
    box = f"wrong-{agent.name}"
    done = pasture.run_named(agent, FIRST, options=("--name", box))
    ended = time.monotonic()
    asked = [row["at"] for host in agent.hosts for row in pasture.services.requests(host) if row["status"] >= 400]
    assert ended - min(asked) < WRONG_KEY_S
    assert done.returncode not in {0, 2, 125}, (done.stdout, done.stderr)
    said = (done.stdout + done.stderr).decode().casefold()
    (known,) = (failure for failure in agents.of(agent.name, "").failure if failure.reason == "auth")
    assert any(words.casefold() in said for words in known.match), said
    assert last_run(pasture, box)["reason"] == "auth"
    assert pasture.services.answers(agent.host) == []


def test_a_run_that_ends_for_want_of_credit_says_so(pasture: Pasture) -> None:
    lend(pasture, NAMED[0])
    error = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}
    pasture.services.refuse(400, {"type": "error", "error": error})
    done = pasture.run_named(NAMED[0], FIRST, options=("--name", "poor"))
    assert (done.returncode, b"Credit balance is too low" in done.stdout) == (1, True), (done.stdout, done.stderr)
    run = last_run(pasture, "poor")
    assert run["reason"] == "failed"
    assert "quota or credit is used up" in run["why"]


def test_claude_at_a_terminal_goes_straight_to_work(pasture: Pasture) -> None:
    claude = NAMED[0]
    lend(pasture, claude)
    three_steps(pasture)
    words = ("run", "--name", "at-terminal", claude.name, ".", "--", FIRST)
    with Person(pasture, *words, size=(40, 120)) as person:
        person.sees(b"4217", 40)
        assert files(pasture) == ("kept\n", "by its own tool\n")
        assert pasture.cli("stop", "at-terminal").returncode == 0
        person.leaves()
    assert [row["final"] for row in pasture.services.answers(claude.host)][-1]
    assert last_run(pasture, "at-terminal")["mode"] == "interactive"

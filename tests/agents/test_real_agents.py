"""The agents that people use work in a box as they are: no address of their API is changed, and no key is inside.

Their services are stand-ins that take the real key alone (tests/support/model_apis.py).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.metering.ledger import Report
from tests.support.agents import AGENTS, CODEX
from tests.support.installation import until
from tests.support.model_answers import ANSWER, CACHED, INPUT, OUTPUT

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.metering.ledger import Line
    from tests.support.agents import Agent
    from tests.support.internet import Internet
    from tests.support.pasture import Pasture

pytestmark = pytest.mark.box
each_agent = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)


def lend(pasture: Pasture, agent: Agent) -> str:
    key = pasture.services.keys[agent.host]
    done = pasture.cli("secret", "set", agent.secret, stdin=key.encode())
    assert done.returncode == 0, done.stderr
    return key


def status(internet: Internet, agent: Agent, key: str) -> bytes:
    """What the service says to a key, outside of every box."""
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"{agent.header}{key}"]
    body = json.dumps({"model": agent.model, "messages": [], "input": [], "contents": []})
    return internet.run([*words, "-d", body, f"https://{agent.host}{agent.path}"]).stdout


def files_with(root: Path, word: str) -> list[Path]:
    """Everything below that holds the word, but for where the value is kept."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.suffix != ".value")
    return [path for path in files if word.encode() in path.read_bytes()]


def refused_hosts(pasture: Pasture, box: str) -> set[str]:
    rows = map(json.loads, pasture.cli("network", "log", "--json", box).stdout.splitlines())
    return {row["host"] for row in rows if row["decision"] == "deny"}


def usage(pasture: Pasture, box: str) -> Report:
    done = pasture.cli("usage", "--json", box)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    return codec.from_wire(Report, row)


@each_agent
def test_a_real_agent_works_with_a_key_that_it_never_has_and_without_whom_it_asks_besides(
    pasture: Pasture, agent: Agent
) -> None:
    services, key = pasture.services, lend(pasture, agent)
    assert (status(services, agent, key), status(services, agent, key[:-1])) == (b"200", b"401")
    services.forget()
    box = f"real-{agent.name}"
    done = pasture.run_agent(agent, "--name", box, "--secret", agent.secret)
    assert (done.returncode, ANSWER in done.stdout.decode()) == (0, True), (done.stdout, done.stderr)
    assert (pasture.workspace / "proof.txt").read_text() == "kept\n", "the model's command was run by the agent"
    assert [row["final"] for row in services.answers(agent.host)][-1]
    _nothing_inside_is_the_key(pasture, box, agent, key)
    assert refused_hosts(pasture, box) >= agent.uninvited
    for host in agent.uninvited:
        assert services.requests(host) == []
        assert services.run(["curl", "-sSf", f"https://{host}/"]).returncode == 0, "outside of the box it is there"
    _usage_is_what_the_service_told(pasture, box, agent)


def _nothing_inside_is_the_key(pasture: Pasture, box: str, agent: Agent, key: str) -> None:
    script = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'"
    seen = pasture.cli("exec", box, "sh", "-c", script).stdout.decode()
    assert re.search(rf"_KEY={re.escape(agent.key)}\S{{20,}}$", seen, re.MULTILINE), "the same look sees a placeholder"
    assert key not in seen
    boxes = pasture.home / "state" / "boxes"
    assert files_with(boxes, ANSWER), "the same search finds what the agent kept of its work"
    assert files_with(pasture.home, key) == []
    assert files_with(pasture.workspace, key) == []


def _usage_is_what_the_service_told(pasture: Pasture, box: str, agent: Agent) -> None:
    count = len(pasture.services.answers(agent.host))
    assert count >= 2, "the command, and the answer"

    def of_the_model() -> Line:
        """What the service refused, such as Codex's first try by websocket, names no model and costs nothing."""
        lines = usage(pasture, box).lines
        assert [(line.input, line.output, line.picodollars) for line in lines if not line.model] in ([], [(0, 0, 0)])
        (found,) = (line for line in lines if line.model)
        return found

    until(lambda: of_the_model().requests == count, "all are told")
    line = of_the_model()
    tokens = (line.input, line.cache_read, line.cache_write, line.output)
    assert (line.model, *tokens) == (agent.model, count * (INPUT - CACHED), count * CACHED, 0, count * OUTPUT)
    assert (line.estimated, line.unlisted) == (0, 0)
    fresh, cached, output = agent.prices
    dollars = ((INPUT - CACHED) * fresh + CACHED * cached + OUTPUT * output) / 10**6
    assert line.picodollars == round(count * dollars * 10**12)


@each_agent
def test_a_cent_stops_a_real_agent(pasture: Pasture, agent: Agent) -> None:
    lend(pasture, agent)
    box = f"poor-{agent.name}"
    done = pasture.run_agent(agent, "--name", box, "--secret", agent.secret, "--max-cost", "0.01")
    assert done.returncode == 78, (done.stdout, done.stderr)
    assert b"the budget of $0.0100 is spent" in done.stderr
    assert ANSWER not in done.stdout.decode()
    (first,) = pasture.services.answers(agent.host)
    assert not first["final"]
    assert usage(pasture, box).over.startswith("the budget of $0.0100 is spent")


@each_agent
def test_without_its_secret_a_real_agent_fails_and_says_which(pasture: Pasture, agent: Agent) -> None:
    never = pasture.run_agent(agent, "--secret", agent.secret)
    assert (never.returncode, never.stdout) == (2, b"")
    error, hint = never.stderr.decode().splitlines()[:2]
    assert error == f"error: there is no secret '{agent.secret}'"
    assert hint.startswith(f"hint: `paddock secret set {agent.secret}`")
    lend(pasture, agent)
    made = pasture.cli("create", *pasture.options(agent), "--secret", agent.secret, f"lost-{agent.name}")
    assert made.returncode == 0, made.stderr
    assert pasture.cli("secret", "rm", agent.secret).returncode == 0
    lost = pasture.cli("run", "--name", f"lost-{agent.name}", *agent.words, timeout_s=100)
    assert lost.returncode not in {0, 78}
    said = (lost.stdout + lost.stderr).decode()
    assert f"warning: there is no secret '{agent.secret}'" in said, "at the start"
    assert f"secret '{agent.secret}' has no value on the host" in said, "and to the agent, which repeats it"
    assert ANSWER not in said
    assert pasture.services.answers(agent.host) == []


def test_codex_talks_over_a_websocket_where_its_service_does(pasture: Pasture, request: pytest.FixtureRequest) -> None:
    key = lend(pasture, CODEX)
    spoken = pasture.services.root / "websockets"
    spoken.touch()
    request.addfinalizer(spoken.unlink)
    done = pasture.run_agent(CODEX, "--name", "real-socket", "--secret", CODEX.secret)
    assert (done.returncode, ANSWER in done.stdout.decode()) == (0, True), (done.stdout, done.stderr)
    seen = pasture.services.requests(CODEX.host)
    assert {row["status"] for row in seen if row["model"]} == {101}, "none of it over HTTPS"
    assert files_with(pasture.home, key) == []
    log = pasture.cli("network", "log", "--json", "real-socket").stdout.decode()
    assert '"status": 101' in log
    assert {(line.model, line.output, line.picodollars) for line in usage(pasture, "real-socket").lines} <= {("", 0, 0)}

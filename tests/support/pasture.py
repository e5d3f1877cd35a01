"""An internet in which the services of models are stand-ins, and an installation in it that has the real agents."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from tests.support import agent_tools
from tests.support.agents import AGENTS, INSIDE, NAMED
from tests.support.internet import PUBLIC, Internet, Online

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.agents import Agent, Named

OUTSIDE = "outside.example"  # of no agent's catalogue


class Services(Internet):
    """`keys` are the real ones, by host."""

    def __init__(self, root: Path) -> None:
        hosts = {host for agent in AGENTS for host in (agent.host, *agent.uninvited)}
        hosts |= {host for named in NAMED for host in named.hosts} | {OUTSIDE}
        super().__init__(root, {host: [[PUBLIC]] for host in hosts}, "tests.support.model_apis")
        keys = {named.secret: named.key + secrets.token_urlsafe(48) for named in NAMED}
        self.keys = {host: keys[named.secret] for named in NAMED for host in named.hosts}
        (self.root / "keys.json").write_text(json.dumps(self.keys))
        self.forget()

    def requests(self, host: str) -> list[dict[str, Any]]:
        """What the service was asked since the test began."""
        rows = map(json.loads, (self.root / "requests.jsonl").read_text().splitlines())
        return [row for row in rows if row["host"] == host]

    def answers(self, host: str) -> list[dict[str, Any]]:
        """Those that a model answered, each of which had the real key."""
        return [row for row in self.requests(host) if row["model"] and row["status"] == 200]

    def forget(self) -> None:
        (self.root / "requests.jsonl").write_text("")
        for name in ("script.json", "refusal.json"):
            (self.root / name).unlink(missing_ok=True)

    def refuse(self, status: int, body: dict[str, Any]) -> None:
        """The model answers nobody from now on."""
        (self.root / "refusal.json").write_text(json.dumps([status, body]))

    def script(self, *steps: tuple[str, ...]) -> None:
        """What the model does from now on, and says at last."""
        (self.root / "script.json").write_text(json.dumps(steps))


class Pasture(Online):
    """An installation with real agents, in an internet with their services."""

    def __init__(self, root: Path, services: Services, programs: Path) -> None:
        super().__init__(root, services)
        self.services = services
        self._programs = programs
        assert self.cli("ls").returncode == 0
        agent_tools.publish(programs, self.state)

    def options(self, agent: Agent) -> tuple[str, ...]:
        """Of a box for it: the programs, and its service."""
        return ("-v", f"{self._programs}:{INSIDE}:ro", "--allow-host", agent.host)

    def run_named(
        self, agent: Named, *words: str, options: tuple[str, ...] = (), timeout_s: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        """By its name, as people do."""
        return self.cli("run", *options, agent.name, ".", "--", *words, timeout_s=timeout_s)

    def run_agent(self, agent: Agent, *options: str) -> subprocess.CompletedProcess[bytes]:
        return self.cli("run", *options, *self.options(agent), *agent.words, timeout_s=100)

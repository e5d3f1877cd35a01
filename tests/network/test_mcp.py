"""MCP servers with keys: the URL's by its agent's placeholder, the command's by one of its own box."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.network.test_secrets import KEY, SET, guarded
from tests.support import contract
from tests.support.robots import Robot, robot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.internet import Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL
ASK = f'curl -sS -m 20 -H "X-Api-Key: $SHOP_KEY" {guarded(KEY)}'
SERVERS = f"""
[web]
url = "{guarded(KEY)}"
secrets = ["shop"]
[own]
command = ["sh", "-c", {json.dumps(f"while read line; do {ASK}; done")}]
allow = ["allowed.example"]
secrets = ["shop"]
"""


@pytest.fixture
def agent(online: Online) -> Iterator[Robot]:
    assert online.cli(*SET, stdin=KEY.encode()).returncode == 0
    with robot(online, servers=SERVERS) as made:
        yield made
    assert online.cli("secret", "rm", "shop").returncode == 0


def test_a_url_is_asked_with_a_key_that_its_agent_never_has(agent: Robot) -> None:
    entry = json.loads(agent.says("cat ~/.robot/mcp.json", "--mcp", "web"))["mcpServers"]["web"]
    [(header, placeholder)] = entry["headers"].items()
    assert (header, entry["url"]) == ("x-api-key", guarded(KEY))
    assert placeholder not in {"", KEY}
    assert agent.says(f"curl -sS -m 20 -H '{header}: {placeholder}' {entry['url']}") == "welcome\n"
    assert agent.says(f"curl -sS -m 20 {entry['url']}") != "welcome\n", "without it the server says no"
    assert KEY not in agent.says("env; cat ~/.robot/mcp.json")


def test_a_command_uses_its_own_key_and_its_agent_cannot(agent: Robot) -> None:
    assert agent.says("echo ask | paddock-mcp own", "--mcp", "own") == "welcome\n"
    assert agent.does(ASK).stdout != b"welcome\n", "the agent has neither the key nor the host"

"""Entries in the shapes of agents, merged into their files."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.mcp import entries
from paddock.model import McpServer

LOCAL = McpServer(name="db", command=("server", "--x"))
REMOTE = McpServer(name="web", url="https://mcp.example.com/mcp")
SHAPES = ("claude", "codex", "gemini", "copilot", "opencode", "kiro")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_command_becomes_the_connector_and_its_name_alone(shape: str) -> None:
    made = entries.entry(shape, LOCAL, {})
    words = made["command"] if isinstance(made["command"], list) else [made["command"], *made["args"]]  # type: ignore[misc]
    assert words == [entries.CONNECTOR, "db"]
    assert "--x" not in repr(made)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_url_has_its_headers(shape: str) -> None:
    made = entries.entry(shape, REMOTE, {"Authorization": "Bearer x"})
    assert REMOTE.url in made.values()
    assert {"Authorization": "Bearer x"} in made.values()
    assert entries.entry(shape, REMOTE, {}).get("headers") is None


def test_a_shape_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UserError, match="shape"):
        entries.entry("other", LOCAL, {})

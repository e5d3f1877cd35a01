"""The request that an MCP server's box is made from; tests/boxes/test_mcp.py has the box."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxSpec, Limits, McpServer, Mount, NetworkRule, SecretUse
from paddock.runtime import mcpboxes
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime

SPEC = BoxSpec(name="box", agent="shell", workspace="/w", caller_home="/h", env={"OWN": "1"}, caller_path="/usr/bin")


def test_a_server_has_what_its_table_says_and_nothing_of_its_agents() -> None:
    server = McpServer(name="db", command=("x",), env={"A": "b"}, secrets=("s", "s"), allow=("h.example.com",))
    made = mcpboxes.request(SPEC, server)
    assert (made.mounts, made.env, made.ephemeral, made.mode.value) == ((), {"A": "b"}, True, "live")
    assert made.secrets == (SecretUse(name="s"),)
    assert made.network.rules == (NetworkRule(action="allow", pattern="h.example.com"),)
    assert made.network.default == "deny"


def test_a_server_takes_no_more_than_its_agent_may() -> None:
    spec = replace(SPEC, limits=Limits(memory_bytes=1 << 28, pids=100, wall_s=60.0))
    assert mcpboxes.request(spec, McpServer(name="db", command=("x",))).limits == Limits(memory_bytes=1 << 28, pids=100)


def test_what_it_sees_of_the_host_is_read_only() -> None:
    server = McpServer(name="db", command=("x",), workspace="ro", mounts=("~/db", "/opt/x"))
    made = mcpboxes.request(SPEC, server)
    assert made.mounts == tuple(Mount(source=path, target="", read_only=True) for path in ("/w", "/h/db", "/opt/x"))
    assert made.workdir == "/w"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('command = ["x"]\nmounts = ["/proc"]', "mount"),
        ('command = ["x"]\nallow = ["*"]\nsecrets = ["nobody-set-it"]', "no secret"),
        ('command = ["x"]\nallow = ["a b"]', "a b"),
        ('url = "https://h.example.com/"\nsecrets = ["nobody-set-it"]', "no secret"),
    ],
)
def test_what_its_box_would_be_refused_for_is_said_before_the_agents_exists(
    tmp_path: Path, workspace: Path, table: str, message: str
) -> None:
    async def act(runtime: Runtime) -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/mcp.toml").write_text(f"[db]\n{table}\n")
        with pytest.raises(UserError, match=message):
            await runtime.create(replace(request(workspace), mcp=("db",)))
        assert runtime.boxes == {}

    within(tmp_path, act)


def test_a_box_keeps_its_servers_as_they_were_when_it_was_made(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/mcp.toml").write_text('[db]\ncommand = ["x"]\n[web]\nurl = "https://h.example.com:8443/"\n')
        box = await runtime.create(replace(request(workspace), mcp=("db", "web")))
        (tmp_path / "config/mcp.toml").write_text('[db]\ncommand = ["y"]\n')
        assert [server.name for server in box.row.spec.mcp] == ["db", "web"]
        assert box.row.spec.mcp[0].command == ("x",)
        assert box.row.spec.network.rules == (NetworkRule(action="allow", pattern="h.example.com:8443"),)
        assert runtime.inspect(box.name).mcp == ("db", "web")

    within(tmp_path, act)

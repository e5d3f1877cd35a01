"""Real agents find their MCP servers: those of the project without a question, those that were named in their list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.agents import INSIDE
from tests.support.robots import robot

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        version = asked.get("params", {}).get("protocolVersion")
        known = {"initialize": {"protocolVersion": version, "serverInfo": {"name": "x", "version": "1"},
                                "capabilities": {"tools": {}}}, "tools/list": {"tools": []}}
        result = known.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
SERVERS = f'[named]\ncommand = ["python3", "-c", {json.dumps(SERVER)}]\n'
MODULES = f"{INSIDE}/lib/node_modules"
NODE = f"$(echo {MODULES}/node-linux-*/bin/node)"
LISTING = {
    "claude": f"$(echo {MODULES}/@anthropic-ai/claude-code-linux-*/claude) mcp list",
    "codex": f"$(find {MODULES}/@openai -name codex -type f -perm /1 | head -1) mcp list",
    "gemini": f"GEMINI_CLI_TRUST_WORKSPACE=true {NODE} {MODULES}/@google/gemini-cli/bundle/gemini.js mcp list",
}
KEYS = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


def listed(installation: Installation, programs: Path, agent: str) -> subprocess.CompletedProcess[bytes]:
    with robot(installation, servers=SERVERS):
        words = ("--name", "real", "--mcp", "named", "-v", f"{programs}:{INSIDE}:ro", agent, ".")
        made = installation.cli("create", *words, env={KEYS[agent]: "key-of-nobody-at-all"})
        assert made.returncode == 0, made.stderr
        return installation.cli("exec", "real", "sh", "-c", f"{LISTING[agent]} 2>&1")


def test_claude_connects_to_both_without_a_question(installation: Installation, programs: Path) -> None:
    (installation.workspace / "server.py").write_text(SERVER)
    entry = {"command": "python3", "args": ["server.py"]}
    (installation.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"project": entry}}))
    lines = listed(installation, programs, "claude").stdout.decode().splitlines()
    found = {line.split(":")[0]: line for line in lines if ":" in line}
    assert "Connected" in found["named"], lines
    assert "Connected" in found["project"], lines


def test_codex_knows_a_named_server(installation: Installation, programs: Path) -> None:
    done = listed(installation, programs, "codex")
    assert b"paddock-mcp" in done.stdout, done.stdout
    assert b"enabled" in done.stdout


def test_gemini_connects_to_a_named_server(installation: Installation, programs: Path) -> None:
    done = listed(installation, programs, "gemini")
    assert b"paddock-mcp named (stdio) - Connected" in done.stdout, done.stdout

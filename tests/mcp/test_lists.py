"""Which servers there are, by the user's own files; and what is refused with the way to do it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.errors import UserError
from paddock.mcp import lists
from paddock.model import McpServer

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "ghp_0123456789abcdefghij0123456789abcdef"
ROBOT = agents.parse(
    """
    name = "robot"
    title = "Robot"
    program = "robot"
    [mcp]
    file = ".robot.json"
    key = "mcpServers"
    shape = "claude"
    """
)


def find(home: Path, *names: str, agent: agents.Agent = ROBOT) -> tuple[McpServer, ...]:
    return lists.find(names, config=str(home), home=str(home), agent=agent)


def write(home: Path, text: str) -> None:
    (home / "mcp.toml").write_text(text)


def listed(home: Path, **servers: object) -> None:
    (home / ".robot.json").write_text(json.dumps({"mcpServers": servers, "other": 1}))


def test_the_users_own_file_comes_before_the_agents(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [db]
        command = ["db-server", "--stdio"]
        env = { MODE = "fast" }
        secrets = ["db"]
        allow = ["db.example.com"]
        workspace = "ro"
        mounts = ["~/db"]
        [web]
        url = "https://mcp.example.com:8443/mcp"
        secrets = ["web"]
        headers = { X-Team = "blue" }
        """,
    )
    listed(tmp_path, db={"command": "other"}, files={"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}})
    db, files, web = find(tmp_path, "db", "files", "web", "db")
    assert db.command == ("db-server", "--stdio")
    assert (db.env, db.secrets, db.allow, db.workspace) == ({"MODE": "fast"}, ("db",), ("db.example.com",), "ro")
    assert files == McpServer(name="files", command=("npx", "-y", "files"), env={"A": "b"})
    assert lists.place(web) == "mcp.example.com:8443"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://mcp.example.com/x", "mcp.example.com"),
        ("https://mcp.example.com:443/x", "mcp.example.com"),
        ("http://localhost:3000/", "localhost:3000"),
        ("http://127.0.0.1/", "localhost:80"),
    ],
)
def test_a_url_names_a_host_and_a_port(url: str, place: str) -> None:
    assert lists.place(McpServer(name="x", url=url)) == place


def test_agents_write_servers_in_several_ways(tmp_path: Path) -> None:
    listed(
        tmp_path,
        opencode={"type": "local", "command": ["a", "b"], "environment": {"X": "y"}, "enabled": True},
        gemini={"httpUrl": "https://g.example.com/", "headers": {"X-Team": "blue"}, "timeout": 5},
    )
    opencode, gemini = find(tmp_path, "opencode", "gemini")
    assert (opencode.command, opencode.env) == (("a", "b"), {"X": "y"})
    assert (gemini.url, gemini.headers) == ("https://g.example.com/", {"X-Team": "blue"})
    (tmp_path / "config.toml").write_text('[mcp_servers.files]\ncommand = "x"\nargs = ["y"]\n')
    text = 'name = "r"\ntitle = "R"\nprogram = "r"\n[mcp]\nfile = "config.toml"\nkey = "mcp_servers"\nformat = "toml"\n'
    assert find(tmp_path, "files", agent=agents.parse(text))[0].command == ("x", "y")


def test_an_unknown_name_is_answered_with_those_that_are_known_and_where(tmp_path: Path) -> None:
    write(tmp_path, '[db]\ncommand = ["x"]\n')
    listed(tmp_path, files={"command": "y"})
    with pytest.raises(UserError, match="no MCP server 'nope'") as caught:
        find(tmp_path, "nope")
    assert f"{tmp_path}/mcp.toml (db)" in caught.value.hint
    assert f"{tmp_path}/.robot.json (files)" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        (f'command = ["x"]\nenv = {{ GH = "{TOKEN}" }}', "--env GH"),
        ('command = ["x"]\nenv = { MY_PASSWORD = "correct horse" }', "--env MY_PASSWORD"),
        (f'command = ["x", "--token", "{TOKEN}"]', "secret set"),
        ('url = "https://h.example.com/"\nheaders = { Authorization = "Bearer whatever" }', "--header Authorization"),
        ('url = "https://h.example.com/"\nheaders = { X-Api-Key = "whatever" }', "--host h.example.com"),
        (f'url = "https://h.example.com/?key={TOKEN}"', "secret set"),
    ],
)
def test_a_token_is_refused_with_the_way_to_do_it(tmp_path: Path, table: str, hint: str) -> None:
    write(tmp_path, f"[db]\n{table}\n")
    with pytest.raises(UserError, match="looks like a token") as caught:
        find(tmp_path, "db")
    assert hint in caught.value.hint
    assert 'secrets = ["NAME"]' in caught.value.hint
    assert TOKEN not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "table",
    [
        "x = 1",
        'command = ["x"]\nurl = "https://h.example.com/"',
        "env = {}",
        'command = "x"',
        'command = ["x"]\nunknown = 1',
        'command = ["x"]\nworkspace = "rw"',
        'command = ["x"]\nheaders = { A = "b" }',
        'url = "https://h.example.com/"\nallow = ["x"]',
        'url = "http://h.example.com/"',
        'url = "https://user@h.example.com/"',
        'url = "https:///x"',
        'url = "https://h.example.com:99999/"',
        'url = "https://h.example.com/"\nheaders = { "A B" = "b" }',
        'name = "other"\ncommand = ["x"]',
    ],
)
def test_what_is_not_a_server_is_refused(tmp_path: Path, table: str) -> None:
    write(tmp_path, f"[db]\n{table}\n")
    with pytest.raises(UserError):
        find(tmp_path, "db")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    write(tmp_path, "[db\n")
    with pytest.raises(UserError, match=r"mcp\.toml"):
        find(tmp_path, "db")
    write(tmp_path, "")
    (tmp_path / ".robot.json").write_text("{")
    with pytest.raises(UserError, match=r"\.robot\.json"):
        find(tmp_path, "db")
    listed(tmp_path, db={"command": "x", "env": {"A": "${HOME}/x"}})
    with pytest.raises(UserError, match="variables of your shell"):
        find(tmp_path, "db")
    assert find(tmp_path) == ()


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 65, "a.b"])
def test_a_name_is_fit_for_a_socket(name: str) -> None:
    with pytest.raises(UserError):
        McpServer(name=name, command=("x",))

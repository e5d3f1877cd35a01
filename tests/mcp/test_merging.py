"""What an agent's file holds besides is untouched, and a file that cannot be read stays."""

from __future__ import annotations

import json
import tomllib

import pytest

from paddock.mcp.entries import CONNECTOR
from paddock.mcp.merging import merged

ENTRIES = {"db": {"command": "/run/x", "args": ["db"]}, "web": {"url": "https://h/", "http_headers": {"A-B": 'q"\\'}}}


def test_entries_are_added_to_json() -> None:
    before = json.dumps({"theme": "dark", "mcpServers": {"old": {"command": "x"}, "db": {"command": "other"}}})
    after = json.loads(merged(before, "json", "mcpServers", ENTRIES))
    assert after == {"theme": "dark", "mcpServers": {"old": {"command": "x"}, **ENTRIES}}
    assert json.loads(merged("", "json", "mcpServers", ENTRIES)) == {"mcpServers": ENTRIES}


def test_entries_are_a_block_of_toml_that_is_written_anew() -> None:
    before = 'model = "o"\n\n[mcp_servers.old]\ncommand = "x"\n'
    once = merged(before, "toml", "mcp_servers", ENTRIES)
    assert tomllib.loads(once) == {"model": "o", "mcp_servers": {"old": {"command": "x"}, **ENTRIES}}
    fewer = {"db": ENTRIES["db"]}
    assert tomllib.loads(merged(once, "toml", "mcp_servers", fewer))["mcp_servers"] == {
        "old": {"command": "x"},
        **fewer,
    }
    assert merged(once, "toml", "mcp_servers", ENTRIES) == once
    assert tomllib.loads(merged(once.replace("/run/x", CONNECTOR), "toml", "mcp_servers", {})) == tomllib.loads(before)


def test_entries_of_an_earlier_box_go() -> None:
    before = json.dumps({"mcpServers": {"old": {"command": CONNECTOR, "args": ["old"]}, "own": {"command": "x"}}})
    assert json.loads(merged(before, "json", "mcpServers", {})) == {"mcpServers": {"own": {"command": "x"}}}
    assert merged("{", "json", "mcpServers", {}) == "{", "who has none is not looked at"


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("{", "json"),
        ("[]", "json"),
        ('{"k": []}', "json"),
        ("[", "toml"),
        ("[k.db]\ncommand = 'mine'\n", "toml"),
        ("k = 1\n", "toml"),
    ],
)
def test_what_cannot_be_merged_is_refused(text: str, format_: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        merged(text, format_, "k", ENTRIES)

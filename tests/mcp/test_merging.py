"""What an agent's file holds besides is untouched, and a file that cannot be read stays."""

from __future__ import annotations

import json
import time
import tomllib

import pytest

from paddock.mcp.entries import CONNECTOR
from paddock.mcp.merging import _BEGIN, _END, merged

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


def test_a_file_of_beginnings_without_an_end_is_read_in_one_pass() -> None:
    """The expression that looked for blocks held the whole daemon for a quarter of an hour, by one file of a box."""
    block = f"{_BEGIN}\nx = 1\n{_END}\n"
    hostile = f"# {CONNECTOR}\n" + f"{_BEGIN}\n" * 16_000
    before_s = time.process_time()
    assert merged(hostile, "toml", "k", {}) == hostile
    assert time.process_time() - before_s < 5
    assert merged(f"# {CONNECTOR}\n{block}y = 2\n{block}", "toml", "k", {}) == f"# {CONNECTOR}\ny = 2\n", "the oracle"


def test_a_key_of_many_parts_is_not_read() -> None:
    """A line of 100 KB would take 40 GB of the daemon's memory."""
    for hostile in (".".join("a" * 50_000) + "=1", "#" * (1 << 20)):
        with pytest.raises(ValueError, match="too many parts"):
            merged(hostile, "toml", "k", ENTRIES)
    usual = 'a.b."c.d".e = "... ... ... ... ... ... ... ..."\n'
    assert merged(usual, "toml", "k", ENTRIES).startswith(usual), "the oracle: the same in a size that people have"


def test_a_deep_file_does_not_grow() -> None:
    deep = '{"a": ' + "[" * 300 + "0," * 20_000 + "0" + "]" * 300 + "}"
    assert len(merged(deep, "json", "k", ENTRIES)) < 3 * len(deep)

"""Puts entries into an agent's own list of servers, which may hold more than that and is otherwise left as it is.

There is no writer of TOML among the things we have: entries are a block of their own at its end, and the result is read
again before it counts.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Final

from paddock.limits import MCP_TOML_BYTES
from paddock.mcp.entries import CONNECTOR
from paddock.policy.positions import is_deep

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGIN: Final = "# MCP servers that paddock brought; written anew at each start"
_END: Final = "# end of what paddock brought"


def merged(text: str, format_: str, key: str, entries: Mapping[str, object]) -> str:
    """The file with these entries in it, and without those of an earlier box; ValueError if it cannot be read, or
    would not be read as meant."""
    if not entries and CONNECTOR not in text:
        return text
    if format_ == "toml":
        return _in_toml(text, key, entries)
    data = json.loads(text) if text.strip() else {}
    if not isinstance(data, dict) or not isinstance(data.get(key, {}), dict):
        raise ValueError(f"{key} is not a table")  # noqa: TRY004 (as for all that cannot be read)
    kept = {name: entry for name, entry in data.get(key, {}).items() if CONNECTOR not in json.dumps(entry)}
    return json.dumps({**data, key: {**kept, **entries}}) + "\n"  # indented, a deep one would fill our memory


def _in_toml(text: str, key: str, entries: Mapping[str, object]) -> str:
    plain = _without_blocks(text)
    lines = [_BEGIN]
    for name, entry in entries.items():
        lines.append(f"[{key}.{json.dumps(name)}]")
        assert isinstance(entry, dict)
        lines += [f"{word} = {_value(value)}" for word, value in entry.items()]
    if not entries:
        return plain
    _check_cheap(plain)
    start = plain.rstrip("\n") + "\n\n" if plain.strip() else ""
    whole = start + "\n".join((*lines, _END)) + "\n"
    before, after = tomllib.loads(plain), tomllib.loads(whole)  # TOMLDecodeError is a ValueError
    if after != {**before, key: {**before.get(key, {}), **entries}}:
        raise ValueError("the file would be read otherwise")
    return whole


def _without_blocks(text: str) -> str:
    """In one pass: a box may have written many beginnings and no end."""
    lines, parts, at = f"\n{text}", [], 1
    while (start := lines.find(f"\n{_BEGIN}\n", at - 1)) >= 0 and (end := lines.find(f"\n{_END}", start)) >= 0:
        parts.append(lines[at : start + 1])
        at = end + 1 + len(_END)
        at += lines.startswith("\n", at)
    return "".join((*parts, lines[at:]))


def _check_cheap(text: str) -> None:
    """tomllib takes memory by the square of the parts of a key: one of some hundred kilobytes takes all there is."""
    if len(text) > MCP_TOML_BYTES or is_deep(text):
        raise ValueError("the file is too large, or a key in it has too many parts")


def _value(value: object) -> str:
    """Strings, lists and tables of them: JSON and TOML write these alike, but for the table."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(word)} = {_value(inner)}" for word, inner in value.items()) + " }"
    return json.dumps(value)

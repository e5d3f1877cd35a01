"""How an agent is told of a server, in the shape that its own configuration has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from paddock.model import McpServer

    Entry = dict[str, object]
    Shape = Callable[[McpServer, Mapping[str, str]], Entry]

CONNECTOR: Final = "/run/paddock/bin/paddock-mcp"  # its argument is the name of a server


def entry(shape: str, server: McpServer, headers: Mapping[str, str]) -> Entry:
    """`headers` are those of a URL, with placeholders in the place of secrets."""
    if shape not in _SHAPES:
        hint = f"one of: {', '.join(_SHAPES)}"
        raise UserError(f"no list of MCP servers has the shape {shape[:40]!r}", hint=hint, code="bad-agent")
    return _SHAPES[shape](server, headers)


def _claude(server: McpServer, headers: Mapping[str, str]) -> Entry:
    if server.url:
        return {"type": "http", "url": server.url, **_headers("headers", headers)}
    return {"type": "stdio", "command": CONNECTOR, "args": [server.name], "env": {}}


def _codex(server: McpServer, headers: Mapping[str, str]) -> Entry:
    if server.url:
        return {"url": server.url, **_headers("http_headers", headers)}
    return {"command": CONNECTOR, "args": [server.name]}


def _gemini(server: McpServer, headers: Mapping[str, str]) -> Entry:
    if server.url:
        return {"httpUrl": server.url, **_headers("headers", headers)}
    return {"command": CONNECTOR, "args": [server.name]}


def _copilot(server: McpServer, headers: Mapping[str, str]) -> Entry:
    if server.url:
        return {"type": "http", "url": server.url, "tools": ["*"], **_headers("headers", headers)}
    return {"type": "local", "command": CONNECTOR, "args": [server.name], "tools": ["*"]}


def _opencode(server: McpServer, headers: Mapping[str, str]) -> Entry:
    if server.url:
        return {"type": "remote", "url": server.url, "enabled": True, **_headers("headers", headers)}
    return {"type": "local", "command": [CONNECTOR, server.name], "enabled": True}


def _headers(key: str, headers: Mapping[str, str]) -> Entry:
    return {key: dict(headers)} if headers else {}


_SHAPES: Final[dict[str, Shape]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
    "opencode": _opencode,
    "kiro": _claude,
}

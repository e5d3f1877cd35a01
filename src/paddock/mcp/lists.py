"""Where servers are written down: the user's mcp.toml, then the user's own list of the agent.

Both are files of the user's and not of a project's. A value that looks like a token is refused: it would lie in the
clear in the record of a box; a secret of that name does the same and is seen by no box.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from paddock import codec
from paddock.errors import UserError
from paddock.limits import MCP_AGENT_FILE_BYTES, MCP_FILE_BYTES
from paddock.model import McpServer
from paddock.secrets import looks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.agents import Agent

FILE: Final = "mcp.toml"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_VARIABLE: Final = re.compile(r"\$\{?[A-Za-z_]")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{0,1024}\Z")


def find(names: Sequence[str], *, config: str, home: str, agent: Agent) -> tuple[McpServer, ...]:
    """UserError for a name that stands in neither list, with those that do."""
    if not names:
        return ()
    own = f"{config}/{FILE}"
    written = _tables(own, _toml(own, MCP_FILE_BYTES))
    listed_in = f"{home}/{agent.mcp.file}" if agent.mcp.file else ""
    listed = _listed(listed_in, agent) if listed_in else {}
    servers = []
    for name in dict.fromkeys(names):
        if name in written:
            server = _written(name, written[name], own)
        elif name in listed:
            server = _of_agent(name, listed[name], listed_in)
        else:
            raise _unknown(name, {own: written, listed_in: listed})
        servers.append(_checked(server, own))
    return tuple(servers)


def place(server: McpServer) -> str:
    """The host of its URL, as a rule names it."""
    parts = urlsplit(server.url)
    host, port = parts.hostname or "", parts.port
    if host in _LOCAL:
        return f"localhost:{port or (443 if parts.scheme == 'https' else 80)}"
    return f"{host}:{port}" if port and port != 443 else host


# -- reading -----------------------------------------------------------------------------------------------------------


def _text(path: str, most: int) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(most + 1)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"cannot read {path}: {reason}", code="bad-mcp") from error
    if len(text) > most:
        raise UserError(f"{path} is too large", code="bad-mcp")
    return text


def _toml(path: str, most: int) -> object:
    import tomllib

    try:
        return tomllib.loads(_text(path, most))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: {error}", code="bad-mcp") from None


def _json(path: str, most: int) -> object:
    try:
        return json.loads(_text(path, most) or "{}")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path}: {error}", hint="correct it, or write the server into mcp.toml", code="bad-mcp"
        ) from None


def _tables(path: str, data: object) -> dict[str, dict[str, object]]:
    if not isinstance(data, dict):
        raise UserError(f"{path} is not a table of servers", code="bad-mcp")
    return {str(name): table for name, table in data.items() if isinstance(table, dict)}


def _listed(path: str, agent: Agent) -> dict[str, dict[str, object]]:
    read = _toml if agent.mcp.format == "toml" else _json
    data = read(path, MCP_AGENT_FILE_BYTES)
    inner = data.get(agent.mcp.key, {}) if isinstance(data, dict) else {}
    return _tables(path, inner)


# -- one server --------------------------------------------------------------------------------------------------------


def _written(name: str, table: Mapping[str, object], path: str) -> McpServer:
    if "name" in table:
        raise UserError(f"{path}: unknown key 'name' in [{name}]", hint="its table names it", code="unknown-key")
    return codec.from_wire(McpServer, {"name": name, **table}, f"{path}: [{name}]")


def _of_agent(name: str, table: Mapping[str, object], path: str) -> McpServer:
    """As agents write it; keys that say other things than where a server is are left to the agent."""
    command, args = table.get("command", ()), table.get("args", ())
    first = [command] if isinstance(command, str) else command
    found = {
        "name": name,
        "command": [*_listing(first), *_listing(args)],
        "env": table.get("env") or table.get("environment") or {},
        "url": table.get("httpUrl") or table.get("url") or "",
        "headers": table.get("headers") or table.get("http_headers") or {},
    }
    server = codec.from_wire(McpServer, found, f"{path}: {name}")
    values = (*server.command, *server.env.values(), *server.headers.values(), server.url)
    if any(map(_VARIABLE.search, values)):
        message = f"the MCP server {name!r} of {path} takes variables of your shell"
        raise UserError(message, hint=f"write it into {FILE} as it is to be", code="bad-mcp")
    return server


def _listing(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _checked(server: McpServer, own: str) -> McpServer:
    for key, value in server.env.items():
        if looks.in_values(value, key):
            raise _token(server, f"the variable {key}", f"NAME --host HOST --env {key}", own)
    for key, value in server.headers.items():
        if not _HEADER.match(key) or not _HEADER_VALUE.match(value):
            raise UserError(f"the MCP server {server.name!r} has a header that is none", code="bad-mcp")
        if looks.in_values(value, key):
            raise _token(
                server, f"the header {key}", f"NAME --host {urlsplit(server.url).hostname} --header {key}", own
            )
    if any(map(looks.has_token, (*server.command, server.url))):
        raise _token(server, "its command line" if server.command else "its url", "NAME --host HOST", own)
    return _with_url(server) if server.url else server


def _with_url(server: McpServer) -> McpServer:
    try:
        parts = urlsplit(server.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    local = host in _LOCAL
    if not host or parts.username or parts.scheme not in ({"http", "https"} if local else {"https"}):
        hint = "https://HOST/PATH; http only at localhost"
        raise UserError(f"the MCP server {server.name!r} has no good url", hint=hint, code="bad-mcp")
    return server


def _token(server: McpServer, where: str, words: str, own: str) -> UserError:
    hint = f'`paddock secret set {words}`, then secrets = ["NAME"] in [{server.name}] of {own}'
    return UserError(
        f"{where} of the MCP server {server.name!r} holds what looks like a token", hint=hint, code="token"
    )


def _unknown(name: str, places: Mapping[str, Mapping[str, object]]) -> UserError:
    looked = [f"{path} ({', '.join(sorted(found)) or 'none'})" for path, found in places.items() if path]
    return UserError(
        f"there is no MCP server {name[:80]!r}",
        hint=f"looked for in {' and '.join(looked)}",
        code="unknown-mcp",
    )

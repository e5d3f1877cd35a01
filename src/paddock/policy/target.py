"""What someone asks about: a host and a port, or a request to one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.errors import UserError
from paddock.policy.host import Host, parse_authority
from paddock.text import neutralise

_PORTS: Final = {"https": 443, "http": 80}
_METHOD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_PATH: Final = re.compile(r"/[!-~]*")
_GET: Final = "GET"
_SHOWN_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`method` is empty when only the connection is asked about."""

    host: Host
    port: int
    method: str = ""
    path: str = ""


def parse_target(text: str, method: str = "") -> Target:
    """Of HOST, HOST:PORT or a URL, whose query does not count; a URL or a method asks about a request."""
    if method and not _METHOD.fullmatch(method):
        hint = "methods are written in capitals, as in POST"
        raise UserError(f"'{neutralise(method, _SHOWN_CHARS)}' is not a method", hint=hint, code="bad-method")
    scheme, found, rest = text.partition("://")
    if not found:
        host, port = parse_authority(text, _PORTS["https"])
        return Target(host=host, port=port, method=method, path="/" if method else "")
    if scheme not in _PORTS:
        shown = neutralise(text, _SHOWN_CHARS)
        raise UserError(f"'{shown}' is neither a host nor a URL", hint="https://HOST/PATH", code="bad-url")
    end = min((at for sign in "/?#" if (at := rest.find(sign)) >= 0), default=len(rest))
    host, port = parse_authority(rest[:end], _PORTS[scheme])
    path = re.split("[?#]", rest[end:], maxsplit=1)[0] or "/"
    if not _PATH.fullmatch(path):
        raise UserError(
            f"'{neutralise(path, _SHOWN_CHARS)}' is not a path", hint="escape it as in a URL", code="bad-url"
        )
    return Target(host=host, port=port, method=method or _GET, path=path)

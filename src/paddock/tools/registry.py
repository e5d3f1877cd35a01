"""Where this user's npm and pip get packages from: their own settings say, and only those, never a project's.

A box that installs reaches these hosts and nothing else. What is in the settings besides, tokens above all, stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from paddock import proc
from paddock.errors import PaddockError, UserError
from paddock.model import Network, NetworkRule

if TYPE_CHECKING:
    from collections.abc import Mapping

_ASK_S: Final = 20.0
_URL_CHARS: Final = 400
_PORTS: Final = {"https": 443, "http": 80}
_USUAL: Final = {"npm": "https://registry.npmjs.org/", "pip": "https://pypi.org/simple/"}
_FILES: Final = {"pypi.org": ("files.pythonhosted.org:443",)}  # an index that has its files elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    url: str
    hosts: tuple[str, ...]  # HOST:PORT

    @property
    def network(self) -> Network:
        """Of a box that reaches it, and nothing else."""
        rules = tuple(NetworkRule(action="allow", pattern=host) for host in self.hosts)
        return Network(default="deny", on_deny="deny", rules=rules)


def of(source: Literal["npm", "pip"], environ: Mapping[str, str]) -> Registry:
    """Runs the package manager of this PATH, which must not lead where a box can write."""
    return parse(_asked(source, environ) or _USUAL[source])


def parse(url: str) -> Registry:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        host = (parts.hostname or "").encode("ascii").decode()
    except (ValueError, KeyError):
        raise _bad(url) from None
    if not host or len(url) > _URL_CHARS or any(char in url for char in " \t\n\"'\\"):
        raise _bad(url)
    if parts.username is not None or parts.password is not None:
        hint = "a box that installs gets no password; give a registry that needs none"
        raise UserError(f"the address of the registry {host} holds a password", hint=hint, code="bad-registry")
    shown = f"[{host}]" if ":" in host else host
    return Registry(url=url, hosts=(f"{shown}:{port}", *_FILES.get(host, ())))


def _bad(url: str) -> UserError:
    hint = "see `npm config get registry` or `pip config list`"
    return UserError(f"{url[:80]!r} is not the address of a registry", hint=hint, code="bad-registry")


def _asked(source: Literal["npm", "pip"], environ: Mapping[str, str]) -> str:
    """By the package manager itself, outside of every project."""
    if source == "npm":
        return _first_line(["npm", "config", "get", "registry"], environ)
    given = environ.get("PIP_INDEX_URL", "")
    return given or _first_line(["python3", "-I", "-m", "pip", "config", "get", "global.index-url"], environ)


def _first_line(argv: list[str], environ: Mapping[str, str]) -> str:
    env = {key: value for key, value in environ.items() if key != "PWD"}
    try:
        done = proc.run(argv, env=env, cwd="/", timeout_s=_ASK_S)
    except PaddockError:
        return ""
    said = done.stdout.decode("utf-8", "replace").strip().splitlines() if done.code == 0 else []
    return said[-1].strip() if said and said[-1].strip() not in {"undefined", "null"} else ""

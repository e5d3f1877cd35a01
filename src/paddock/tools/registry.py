"""Where this user's npm and pip get packages from: their own settings say, and only those, never a project's.

A box that installs reaches these hosts and nothing else. What is in the settings besides, tokens above all, stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from paddock.errors import UserError
from paddock.model import Network, NetworkRule

if TYPE_CHECKING:
    from collections.abc import Mapping

_URL_CHARS: Final = 400
_PORTS: Final = {"https": 443, "http": 80}
_FILES: Final = {"pypi.org": ("*.pythonhosted.org:443",)}  # an index that has its files elsewhere

_VARIABLES: Final = {
    "npm": ("npm_config_registry", "NPM_CONFIG_REGISTRY"),
    "pip": ("PIP_INDEX_URL",),
}
_NAMED: Final = {"npm": "NPM_CONFIG_USERCONFIG", "pip": "PIP_CONFIG_FILE"}
_OF_ALL: Final = {
    "npm": ("/etc/npmrc", "/usr/local/etc/npmrc", "/usr/etc/npmrc"),
    "pip": ("/etc/pip.conf", "/etc/xdg/pip/pip.conf"),
}
_KEYS: Final = {"npm": ("registry",), "pip": ("index-url", "index_url")}
_HEADS: Final = frozenset({"", "global", "install"})
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FILE_CHARS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    url: str  # empty: the package manager's own, which it knows best
    hosts: tuple[str, ...]  # HOST:PORT

    @property
    def network(self) -> Network:
        """Of a box that reaches it, and nothing else."""
        rules = tuple(NetworkRule(action="allow", pattern=host) for host in self.hosts)
        return Network(default="deny", on_deny="deny", rules=rules)


PUBLIC: Final = {
    "npm": Registry(url="", hosts=("*.npmjs.org:443",)),
    "pip": Registry(url="", hosts=("pypi.org:443", *_FILES["pypi.org"])),
}


def of(source: Literal["npm", "pip"], environ: Mapping[str, str]) -> Registry:
    """Reads what the package manager would, and does not run it: on a PATH a box may have put another."""
    said = _said(source, environ)
    return parse(said) if said else PUBLIC[source]


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


def _said(source: Literal["npm", "pip"], environ: Mapping[str, str]) -> str:
    """By a variable, else by the user's file, else by the machine's."""
    for variable in _VARIABLES[source]:
        if value := environ.get(variable, "").strip():
            return value
    for path in _files(source, environ):
        if value := _value(_text(path), _KEYS[source], environ):
            return value
    return ""


def _files(source: Literal["npm", "pip"], environ: Mapping[str, str]) -> list[str]:
    home, named = environ.get("HOME", ""), environ.get(_NAMED[source], "")
    if source == "npm":
        own = [named or f"{home}/.npmrc"]
    else:
        config = environ.get("XDG_CONFIG_HOME", "") or f"{home}/.config"
        own = [named, f"{config}/pip/pip.conf", f"{home}/.pip/pip.conf"]
    return [path for path in (*own, *_OF_ALL[source]) if path.startswith("/")]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_FILE_CHARS)
    except OSError:
        return ""


def _value(text: str, keys: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """The last in a file of lines `key = value`; in pip's under a head that all commands or installs obey."""
    found, head = "", ""
    for line in text.splitlines():
        if line.startswith("["):
            head = line.strip("[] \t")
        key, equals, value = line.partition("=")
        if equals and key.strip() in keys and head in _HEADS:
            found = _VARIABLE.sub(lambda name: environ.get(name[1], name[0]), value.strip().strip("\"'"))
    return found

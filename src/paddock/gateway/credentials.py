"""A box's secrets as the gateway holds them: a placeholder, the value behind it, and where it may go.

They come in a document of their own (docs/gateway.md) and live in this process's memory only. No error here names a
value, and nothing prints one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from paddock import codec
from paddock.errors import UserError
from paddock.gateway.gitscope import GitScope
from paddock.limits import PLACEHOLDER_LEAST_CHARS, SECRET_BYTES, SECRET_GROWTH_MAX
from paddock.policy import Host, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

Scheme = Literal["https", "http"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
_WORD: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # what a header carries and nothing reads as its end
_LEAK_LEAST_CHARS: Final = 12  # a shorter value may well be a word of some request


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Where one secret may go: one entry of the document but for its value."""

    name: str
    placeholder: str
    hosts: tuple[str, ...]
    port: int = 443
    scheme: Scheme = "https"
    headers: tuple[str, ...] = ()  # lower-case; none: any
    body: bool = False
    query: bool = False
    git: GitScope | None = None
    missing: bool = False


class Credential:
    """A binding with its value. Not a dataclass: no `repr`, `asdict` or comparison of it can show the value."""

    __slots__ = ("__leaks", "__value", "binding", "hosts", "needle", "placeholder")

    def __init__(self, binding: Binding, value: str) -> None:
        """UserError for what cannot be a secret; the error names it and not its value."""
        _check(binding, value)
        self.binding = binding
        self.placeholder = binding.placeholder
        self.needle = binding.placeholder.encode("ascii")
        self.hosts = tuple(_names(binding))
        self.__value = "" if binding.missing else value
        self.__leaks = _leaks(self.__value)

    def __repr__(self) -> str:
        return f"<Credential {self.binding.name} {'missing' if self.binding.missing else '***'}>"

    def __reduce_ex__(self, _protocol: object) -> str:
        raise TypeError("a credential is neither copied nor serialised")

    @property
    def name(self) -> str:
        return self.binding.name

    def reveal(self) -> str:
        return self.__value

    @property
    def leaks(self) -> tuple[bytes, ...]:
        """How the value would look where it must not be; none when it is too short to tell."""
        return self.__leaks

    def is_for(self, host: Host, port: int, scheme: Scheme) -> bool:
        binding = self.binding
        return (port, scheme) == (binding.port, binding.scheme) and any(each.names(host, port) for each in self.hosts)


def parse(entries: object) -> tuple[Credential, ...]:
    """The secrets of a document. Raises UserError, which never has a value in it."""
    if not isinstance(entries, list):
        raise UserError("secrets must be a list", code="wrong-type")
    found = tuple(map(_credential, entries))
    for unique in ({each.name for each in found}, {each.placeholder for each in found}):
        if len(unique) != len(found):
            raise UserError("two secrets with one name or one placeholder", code="bad-secret")
    return found


def _credential(entry: object) -> Credential:
    if not isinstance(entry, dict):
        raise UserError("a secret must be an object", code="wrong-type")
    value = entry.get("value", "")
    binding = codec.from_wire(Binding, {key: item for key, item in entry.items() if key != "value"})
    if not isinstance(value, str):
        raise UserError(f"the value of secret {binding.name[:64]!r} is no text", code="wrong-type")
    return Credential(binding, value)


def _check(binding: Binding, value: str) -> None:
    if not _NAME.fullmatch(binding.name):
        raise UserError(f"{binding.name[:80]!r} is no name of a secret", code="bad-secret")
    placeholder = binding.placeholder
    if len(placeholder) < PLACEHOLDER_LEAST_CHARS or not _WORD.fullmatch(placeholder):
        raise UserError(f"the placeholder of secret {binding.name!r} cannot be one", code="bad-secret")
    if not all(map(_HEADER.fullmatch, binding.headers)):
        raise UserError(f"secret {binding.name!r} names a header that is none", code="bad-secret")
    if binding.missing:
        return
    fits = len(value) <= min(SECRET_BYTES, SECRET_GROWTH_MAX * len(placeholder))
    if not _WORD.fullmatch(value) or not fits or placeholder in value:
        raise UserError(f"the value of secret {binding.name!r} cannot travel in a request", code="bad-secret")


def _leaks(value: str) -> tuple[bytes, ...]:
    """As it is, and as a URL spells it."""
    if len(value) < _LEAK_LEAST_CHARS:
        return ()
    return tuple(dict.fromkeys((value.encode("ascii"), quote(value, safe="").encode("ascii"))))


def _names(binding: Binding) -> Iterable[Pattern]:
    for text in binding.hosts:
        pattern = Pattern(text)
        if not pattern.name or pattern.network is not None:
            raise UserError(f"secret {binding.name!r} must be bound to names, not to {text[:80]!r}", code="bad-secret")
        yield pattern
